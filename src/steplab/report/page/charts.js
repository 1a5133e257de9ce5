// Charts: how they fit the page, the screen's width and its colours.
const PRINTED_WIDTH = 680;

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const NARROW = 640;

// On a phone a configuration is named by its levels alone, or its name would leave no room for the chart.
function fitting(layout) {
  if (innerWidth >= NARROW || !layout.yaxis?.ticktext) return layout;
  return { ...layout, yaxis: { ...layout.yaxis, ticktext: layout.yaxis.ticktext.map((text) => text.replace(/[\w.]+=/g, "")) } };
}

function coloured(layout) {
  const hover = { ...layout.hoverlabel, bgcolor: ink("--card"), bordercolor: ink("--line"), font: { color: ink("--ink") } };
  return { ...layout, font: { ...layout.font, color: ink("--ink") }, hoverlabel: hover, autosize: true };
}

function drawChart(box, chart) {
  return Plotly.react(box, chart.data, coloured(fitting(chart.layout)), { responsive: true, displayModeBar: false });
}

// A printed page is white and narrow, whatever the screen is.
function forPrint(on) {
  for (const box of document.querySelectorAll("[data-chart]")) {
    if (!box.layout) continue;
    const width = on ? { width: PRINTED_WIDTH, autosize: false } : { width: null, autosize: true };
    Plotly.relayout(box, { ...width, "font.color": on ? "#000000" : ink("--ink") });
  }
}
addEventListener("beforeprint", () => forPrint(true));
addEventListener("afterprint", () => forPrint(false));
