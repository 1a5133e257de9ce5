// The page: theme, charts, tables, what if; and, when it is served, news of the running study.
const THEMES = { auto: "as the system", light: "light", dark: "dark" };
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

function draw() {
  for (const box of document.querySelectorAll("[data-table]")) {
    drawTable(box, page.tables.find((table) => table.id === box.dataset.table));
  }
  drawWhatIf(page.whatIf);
  drawCharts(page.charts);
}

document.getElementById("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % names.length]);
  recolour();
});
document.getElementById("what-if-form")?.addEventListener("submit", (event) => event.preventDefault());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
setTheme(Object.hasOwn(THEMES, remembered()) ? remembered() : "auto");
draw();
