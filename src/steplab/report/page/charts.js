// Charts: how they fit the page, the screen's width and its colours.
const PRINTED_WIDTH = 680;
const NARROW = matchMedia("(max-width: 45rem)");
const PANEL = 270; // pixels of a panel on a narrow screen
const LETTER = 7.2; // pixels of a letter of a label
const LINE = 16;

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The page writes the legend itself, above the chart: it breaks its lines, and covers nothing.
function withoutLegend(layout) {
  const room = layout.meta?.legend ?? 0;
  return { ...layout, showlegend: false, height: layout.height - room, margin: { ...layout.margin, t: layout.margin.t - room } };
}

// On a narrow screen panels stand below each other.
function stacked(layout, data) {
  const used = new Set(data.map((trace) => (trace.xaxis ?? "x").replace("x", "xaxis")));
  const names = Object.keys(layout).filter((key) => used.has(key));
  if (names.length < 2) return layout;
  const made = { ...layout, height: layout.margin.t + PANEL * names.length };
  const share = 1 / names.length;
  const gap = 75 / (PANEL * names.length); // for an axis, its title and the next panel's
  names.forEach((name, at) => {
    const beside = layout[name].anchor.replace("y", "yaxis");
    const bottom = 1 - share * (at + 1);
    made[name] = { ...layout[name], domain: [0, 1] };
    made[beside] = { ...layout[beside], domain: [bottom + (at < names.length - 1 ? gap : 0), bottom + share] };
    if (!made[beside].title?.text) made[beside].title = layout.yaxis.title;
  });
  return made;
}

function lines(text, width) {
  const most = Math.max(20, Math.floor(width / LETTER));
  const made = [];
  for (const word of text.replaceAll("<br>", " ").split(" ")) {
    if (made.length && made.at(-1).length + word.length < most) made[made.length - 1] += ` ${word}`;
    else made.push(word);
  }
  return made;
}

// There, the name of a row stands above it, whole, and leaves the chart the width.
function labelledAbove(layout, width) {
  const { tickvals, ticktext, autorange, type } = layout.yaxis ?? {};
  if (!ticktext || type === "log" || layout.yaxis2) return layout; // a logarithmic axis has numbers, not names
  const labels = ticktext.map((text) => lines(text, width));
  const tallest = Math.max(...labels.map((label) => label.length));
  const row = 30 + LINE * tallest;
  const low = Math.min(...tickvals) - 0.4;
  const high = Math.max(...tickvals) + 0.4;
  const above = (10 + LINE * tallest) / row; // of the row on top
  const range = autorange === "reversed" ? [high, low - above] : [low, high + above];
  const texts = labels.map((label, at) => ({
    text: label.join("<br>"), x: 0, xref: "paper", xanchor: "left", align: "left", y: tickvals[at], yanchor: "bottom", yshift: 9, showarrow: false, font: { size: 12 }, bgcolor: ink("--paper"), borderpad: 0,
  }));
  return {
    ...layout, bargap: 1 - 16 / row, annotations: [...(layout.annotations ?? []), ...texts],
    height: layout.margin.t + layout.margin.b + Math.round(row * (tickvals.length + 0.8)),
    margin: { ...layout.margin, l: 8 }, yaxis: { ...layout.yaxis, range, autorange: false, showticklabels: false, ticks: "", showgrid: false },
  };
}

function fitting({ layout, data }, width) {
  const whole = withoutLegend(layout);
  return NARROW.matches ? labelledAbove(stacked(whole, data), width) : whole;
}

function coloured(layout) {
  const hover = { ...layout.hoverlabel, bgcolor: ink("--card"), bordercolor: ink("--line"), font: { color: ink("--ink") } };
  return { ...layout, font: { ...layout.font, color: ink("--ink") }, hoverlabel: hover, autosize: true };
}

function drawChart(box, chart) {
  drawLegend(box, chart);
  return Plotly.react(box, chart.data, coloured(fitting(chart, box.clientWidth)), { responsive: true, displayModeBar: false });
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
