// The page: theme, charts, tables, what if; and, when it is served, news of the running study.
const THEMES = { auto: "as the system", light: "light", dark: "dark" };
let drawing = 0;
let page = JSON.parse(document.getElementById("document").textContent);

function remembered() {
  try {
    return localStorage.getItem("steplab-theme") ?? "auto";
  } catch {
    return "auto"; // a browser may refuse storage to pages from files
  }
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = `Colours: ${THEMES[theme]}`;
  try {
    localStorage.setItem("steplab-theme", theme);
  } catch { /* it is only not remembered */ }
}

function recolour() {
  for (const box of document.querySelectorAll("[data-chart]")) {
    if (box.layout) drawChart(box, page.charts[box.dataset.chart]);
  }
}

// One thing after the other, what is seen first first, so that the page can be read at once.
function draw() {
  const round = ++drawing;
  const all = (name) => [...document.querySelectorAll(`[data-${name}]`)];
  const charts = all("chart").map((box) => () => drawChart(box, page.charts[box.dataset.chart]));
  const tables = all("table").map((box) => () => drawTable(box, page.tables.find((table) => table.id === box.dataset.table)));
  const steps = [...charts, () => drawWhatIf(page.whatIf), ...tables, () => { document.documentElement.dataset.ready = "all"; }];
  const next = () => {
    if (round !== drawing || !steps.length) return;
    whenSeen(next);
    steps.shift()();
  };
  next();
}

// After what was drawn can be seen; a page in the background is never shown and need not wait.
function whenSeen(next) {
  const later = () => setTimeout(next, 0);
  if (document.hidden) later();
  else requestAnimationFrame(later);
}

document.getElementById("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % names.length]);
  recolour();
});
document.getElementById("what-if-form")?.addEventListener("submit", (event) => event.preventDefault());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
NARROW.addEventListener("change", recolour);
setTheme(Object.hasOwn(THEMES, remembered()) ? remembered() : "auto");
draw();
