// A served page asks for news; the answer is the same page's content, made anew.
const PAUSE_MS = 3000;
let version = page.version;

function showProgress(progress) {
  const bar = document.getElementById("progress");
  bar.max = Math.max(progress.trials, 1);
  bar.value = progress.ok + progress.failed + progress.unsupported;
  const refused = progress.unsupported ? `, ${progress.unsupported} unsupported` : "";
  const left = progress.left ? `, ${progress.left} left${progress.seconds_left === null ? "" : `, about ${time(progress.seconds_left)}`}` : ", finished";
  document.getElementById("progress-text").textContent =
    `${progress.ok} ok, ${progress.failed} failed${refused} of ${progress.trials} trials${left} · noise: ${progress.noise}`;
}

function renew(news) {
  // Someone who is typing is not disturbed: the next news will do.
  if (document.activeElement?.matches("#main input, #main select")) return;
  const main = document.getElementById("main");
  const height = scrollY;
  main.style.minHeight = `${main.offsetHeight}px`; // it stays as long as it was while it is drawn anew
  main.innerHTML = news.main;
  page = news.document;
  version = news.version;
  document.getElementById("what-if-form")?.addEventListener("submit", (event) => event.preventDefault());
  draw();
  scrollTo({ top: height, behavior: "instant" });
}

async function listen() {
  try {
    const answer = await fetch("state.json", { cache: "no-cache" });
    const news = await answer.json();
    showProgress(news.progress);
    if (news.version !== version) renew(news);
  } catch {
    document.getElementById("progress-text").textContent = "the server has stopped; this is the last state";
  }
  setTimeout(listen, PAUSE_MS);
}
if ("live" in document.body.dataset) listen();
