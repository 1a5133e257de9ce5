// Tables that sort and filter; a cell is always text, never markup.
const FIRST_ROWS = 50;
const kept = {}; // what a person sorted, filtered and opened, kept while a live page renews itself

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shown(value, column) {
  if (value === null || value === undefined) return "";
  if (column.kind === "text" || typeof value !== "number") return String(value);
  const scaled = value * column.scale;
  return Number.isInteger(scaled) ? String(scaled) : String(Number(scaled.toPrecision(4)));
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// A word must stand somewhere in the row; name=value must be what that column shows.
function matcher(table, word) {
  const [name, value] = [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)];
  const at = word.includes("=") ? table.columns.findIndex((column) => column.key.toLowerCase() === name) : -1;
  return at >= 0 ? (cells) => cells[at] === value : (cells) => cells.some((cell) => cell.includes(word));
}

function chosenRows(table, state) {
  const wanted = state.filter.toLowerCase().split(/\s+/).filter(Boolean).map((word) => matcher(table, word));
  const rows = wanted.length === 0 ? [...table.rows] : table.rows.filter((row) => {
    const cells = row.map((value, at) => shown(value, table.columns[at]).toLowerCase());
    return wanted.every((fits) => fits(cells));
  });
  if (state.by !== null) {
    // Missing values stay last, whichever way it is sorted.
    rows.sort((a, b) => (a[state.by] === null || b[state.by] === null ? 1 : state.way) * compare(a[state.by], b[state.by]));
  }
  return rows;
}

function heading(table, state, update) {
  return table.columns.map((column, at) => {
    const unit = column.unit ? [" ", element("span", { class: "unit" }, `[${column.unit}]`)] : [];
    const button = element("button", { type: "button" }, column.title, ...unit);
    button.addEventListener("click", () => {
      state.way = state.by === at ? -state.way : 1;
      state.by = at;
      update();
    });
    const order = state.by === at ? (state.way > 0 ? "ascending" : "descending") : "none";
    return element("th", { scope: "col", "aria-sort": order, ...(column.kind === "text" ? { class: "text" } : {}) }, button);
  });
}

function body(table, rows) {
  return rows.map((row) => element("tr", {}, ...row.map((value, at) => {
    const text = shown(value, table.columns[at]);
    const kind = table.columns[at].kind === "text" ? (text.length > 40 ? "text long" : "text short") : "number";
    const { title, unit } = table.columns[at];
    return element("td", { class: kind, "data-column": unit ? `${title} [${unit}]` : title }, text);
  })));
}

// The same rule as in `steplab export --to FILE.csv`, so that reading takes the apostrophe away again.
function isFormula(text) {
  return /^'*[=@+\-\t\r]/.test(text) && !/^'*[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$/.test(text);
}

function csvOf(table, rows) {
  const quoted = (value) => {
    // A leading sign of a formula is defused: spreadsheets run what stands behind it.
    const text = value === null ? "" : typeof value === "string" && isFormula(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [table.columns.map((column) => column.key), ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function drawTable(box, table) {
  const state = (kept[table.id] ??= { by: null, way: 1, filter: "", all: false });
  const filter = element("input", { type: "search", placeholder: "filter: words, or column=value", "aria-label": `Filter: ${table.title}` });
  const count = element("span", { class: "soft", role: "status" });
  const more = element("button", { type: "button" });
  const csv = element("button", { type: "button" }, "CSV");
  const head = element("tr");
  const rows = element("tbody");
  const update = () => {
    const focused = head.contains(document.activeElement) ? state.by : null;
    const found = chosenRows(table, state);
    const drawn = state.all ? found : found.slice(0, FIRST_ROWS);
    head.replaceChildren(...heading(table, state, update));
    rows.replaceChildren(...body(table, drawn));
    count.textContent = `${drawn.length} of ${found.length} rows` + (found.length < table.rows.length ? `, ${table.rows.length} without the filter` : "");
    more.hidden = found.length <= FIRST_ROWS;
    more.textContent = state.all ? "fewer rows" : "all rows";
    if (focused !== null) head.children[focused].querySelector("button").focus();
  };
  filter.value = state.filter;
  filter.addEventListener("input", () => { state.filter = filter.value; update(); });
  more.addEventListener("click", () => { state.all = !state.all; update(); });
  csv.addEventListener("click", () => save(`${table.id}.csv`, csvOf(table, chosenRows(table, state))));
  const drawn = element("table", { "aria-label": table.title }, element("thead", {}, head), rows);
  const scroll = element("div", { class: "table-box", tabindex: "0", role: "group", "aria-label": table.title }, drawn);
  box.replaceChildren(element("div", { class: "tools" }, filter, csv, more, count), scroll);
  update();
}
