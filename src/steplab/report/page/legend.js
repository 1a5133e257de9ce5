// Legends: a button for each series, with its colour and its shape; pressing it hides the series.
const SVG = "http://www.w3.org/2000/svg";
const SHAPES = {
  circle: "M20 8a4.5 4.5 0 1 1-9 0a4.5 4.5 0 1 1 9 0Z", square: "M11.5 4h8v8h-8Z", diamond: "M15.5 2.5l5.5 5.5l-5.5 5.5l-5.5-5.5Z",
  "triangle-up": "M15.5 3l5 9h-10Z", "triangle-right": "M11 3l9 5l-9 5Z", cross: "M14 3h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5Z", x: "M12 3l3.5 3.5L19 3l1.5 1.5L17 8l3.5 3.5L19 13l-3.5-3.5L12 13l-1.5-1.5L14 8l-3.5-3.5Z",
  star: "M15.5 2l1.5 4h4l-3.2 2.6l1.2 4.2l-3.5-2.5l-3.5 2.5l1.2-4.2L10 6h4Z", hexagon: "M15.5 3l4.5 2.5v5L15.5 13L11 10.5v-5Z",
};
const STROKES = { dash: "6 3", dot: "2 3", dashdot: "6 2 2 2", longdash: "10 3", longdashdot: "9 2 2 2" };
const HATCHES = { "/": "M6 13l8-10M14 13l8-10", "\\": "M6 3l8 10M14 3l8 10", x: "M6 13l8-10M14 13l8-10M6 3l8 10M14 3l8 10", "-": "M4 6h22M4 10h22", "|": "M10 2v12M15 2v12M20 2v12", "+": "M4 8h22M11 2v12M19 2v12", ".": "M9 8h1M15 8h1M21 8h1" };

function path(d, attributes) {
  const made = document.createElementNS(SVG, "path");
  for (const [key, value] of Object.entries({ d, ...attributes })) made.setAttribute(key, value);
  return made;
}

function swatch(trace) {
  const image = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ width: 31, height: 16, "aria-hidden": "true" })) image.setAttribute(key, value);
  const colour = trace.marker?.color ?? trace.line?.color ?? trace.fillcolor ?? ink("--soft");
  const plain = typeof colour === "string" ? colour : ink("--soft");
  if (trace.type === "bar") {
    image.append(path("M4 2h22v12h-22Z", { fill: plain }), path(HATCHES[trace.marker.pattern?.shape] ?? "", { stroke: "#fff", fill: "none", "stroke-opacity": 0.7 }));
  } else if (trace.fill) {
    image.append(path("M2 2h27v12h-27Z", { fill: trace.fillcolor, opacity: trace.opacity ?? 0.3 }));
  } else {
    if (trace.mode?.includes("lines")) image.append(path("M1 8h29", { stroke: trace.line?.color ?? plain, "stroke-width": 2, "stroke-dasharray": STROKES[trace.line?.dash] ?? "" }));
    if (trace.mode?.includes("markers")) {
      const [name, open] = [trace.marker.symbol ?? "circle", String(trace.marker.symbol).endsWith("-open")];
      image.append(path(SHAPES[String(name).replace("-open", "")] ?? SHAPES.circle, open ? { fill: "none", stroke: plain, "stroke-width": 2 } : { fill: plain }));
    }
  }
  return image;
}

// Names come from a study, escaped for Plotly: they are text here.
function unescaped(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

function entry(box, trace, mine) {
  const button = element("button", { type: "button", "aria-pressed": "true" }, swatch(trace), element("span", {}, unescaped(trace.name)));
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    Plotly.restyle(box, { visible: on }, mine);
  });
  return element("li", {}, button);
}

function drawLegend(box, chart) {
  const named = chart.data.filter((trace) => trace.name && trace.showlegend !== false);
  const same = (trace) => chart.data.flatMap((other, at) => (other === trace || (trace.legendgroup && other.legendgroup === trace.legendgroup) ? [at] : []));
  const entries = named.length > 1 ? named.map((trace) => entry(box, trace, same(trace))) : [];
  document.querySelector(`[data-legend="${box.dataset.chart}"]`).replaceChildren(...entries);
}
