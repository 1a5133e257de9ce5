// What if: the readable models, computed here.
const chosen = { model: null, level: "0.9", row: {}, samples: null }; // kept while a live page renews itself
const REACH = 4; // sliders go that many times beyond the measured range
const STEPS = 400;

function time(value) {
  if (!Number.isFinite(value)) return value === Infinity ? "∞" : "–";
  if (value === 0) return "0 s";
  const digits = (x) => String(Number(x.toPrecision(4)));
  if (Math.abs(value) >= 7200) return `${digits(value / 3600)} h`;
  if (Math.abs(value) >= 120) return `${digits(value / 60)} min`;
  const unit = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([size]) => Math.abs(value) >= size) ?? [1e-9, "ns"];
  return `${digits(value / unit[0])} ${unit[1]}`;
}

// A slider's places: whole numbers where whole numbers were measured, logarithmic over a wide range.
function slider(low, high, whole) {
  const least = low > 0 ? low / REACH : low - (high - low);
  const bottom = whole && low > 0 ? Math.max(1, Math.floor(least)) : least;
  const top = high > 0 ? high * REACH : high + (high - low);
  const wide = bottom > 0 && top / bottom >= 32;
  const round = (x) => (whole ? Math.round(x) : Number(x.toPrecision(3)));
  const steps = whole && !wide ? Math.round(top - bottom) : STEPS;
  return {
    steps,
    at: (place) => round(wide ? bottom * Math.pow(top / bottom, place / steps) : bottom + ((top - bottom) * place) / steps),
    place: (x) => Math.round(steps * (wide ? Math.log(x / bottom) / Math.log(top / bottom) : (x - bottom) / (top - bottom))),
  };
}

function factorControl(model, name, update) {
  const id = `factor-${model.columns.indexOf(name)}`;
  const label = element("label", { for: id }, name);
  if (name in model.levels) {
    const menu = element("select", { id, "data-factor": name });
    for (const level of model.levels[name]) menu.append(element("option", { value: level }, level));
    menu.value = chosen.row[name];
    menu.addEventListener("change", () => { chosen.row[name] = menu.value; update(); });
    return element("div", { class: "factor" }, label, menu);
  }
  const [low, high] = model.range[name];
  const scale = slider(low, high, Number.isInteger(low) && Number.isInteger(high));
  const range = element("input", { id, type: "range", min: 0, max: scale.steps, step: 1, "data-slider": name });
  const number = element("input", { type: "number", step: "any", "data-factor": name, "aria-label": `${name}, as a number` });
  const tell = () => range.setAttribute("aria-valuetext", String(chosen.row[name]));
  range.value = scale.place(chosen.row[name]);
  number.value = chosen.row[name];
  tell();
  range.addEventListener("input", () => { chosen.row[name] = scale.at(Number(range.value)); number.value = chosen.row[name]; tell(); update(); });
  number.addEventListener("input", () => {
    if (number.value === "" || !Number.isFinite(number.valueAsNumber)) return;
    chosen.row[name] = number.valueAsNumber;
    range.value = scale.place(chosen.row[name]);
    tell();
    update();
  });
  return element("div", { class: "factor" }, label, range, number);
}

// Where the controls stand first: the fastest configuration, or the middle of what was measured.
function firstRow(model, constants) {
  const row = {};
  for (const [name, levels] of Object.entries(model.levels)) {
    const wanted = String(chosen.row[name] ?? constants[name]);
    row[name] = levels.includes(wanted) ? wanted : levels[0];
  }
  for (const [name, [low]] of Object.entries(model.range)) row[name] = Number(chosen.row[name] ?? constants[name] ?? low);
  return row;
}

function samplesPerStep(data, row) {
  const get = (name) => Number(row[name] ?? data.constants[name]);
  return data.strong ? get("global_batch_size") : get("batch_size") * get("workers");
}

// The ratio of two throughputs; errors of the two predictions add in squares on the log scale.
function speedUp(data, model, row, level, now) {
  if (!("workers" in model.range)) return null;
  const alone = predict(model, { ...row, workers: 1 }, level);
  const value = (data.strong ? 1 : row.workers) * (alone.value / now.value);
  const up = Math.hypot(Math.log(now.value / now.low), Math.log(alone.high / alone.value));
  const down = Math.hypot(Math.log(now.high / now.value), Math.log(alone.value / alone.low));
  return row.workers === 1 ? { value: 1, low: 1, high: 1 } : { value, low: value * Math.exp(-down), high: value * Math.exp(up) };
}

function card(id, title, made, show, percent) {
  const told = made && Number.isFinite(made.low) && Number.isFinite(made.high);
  const text = told ? `${show(made.low)} to ${show(made.high)} (${percent} %)` : made ? "no interval can be given" : "";
  const ends = told ? { "data-low": made.low, "data-high": made.high } : {};
  const attributes = { class: "card", id, ...(made ? { "data-value": made.value, ...ends } : {}) };
  return element("div", attributes, element("span", {}, title), element("b", {}, made ? show(made.value) : "–"), element("span", {}, text));
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function showResults(data, model) {
  const { row, level } = chosen;
  const now = predict(model, row, level);
  const percent = Number((100 * level).toPrecision(6));
  const isTime = model.target.startsWith("t_");
  const perStep = samplesPerStep(data, row);
  const steps = Number.isFinite(perStep) && chosen.samples > 0 ? Math.ceil(chosen.samples / perStep) : NaN;
  const epoch = isTime && Number.isFinite(steps) ? { value: steps * now.value, low: steps * now.low, high: steps * now.high } : null;
  const digits = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(3))) : x === Infinity ? "∞" : "–");
  const cards = [card("result-time", isTime ? "step time" : model.target, now, isTime ? time : digits, percent)];
  if (isTime) {
    const rate = { value: perStep / now.value, low: perStep / now.high, high: perStep / now.low };
    if (Number.isFinite(perStep)) cards.push(card("result-rate", "samples per second", rate, digits, percent));
    cards.push(card("result-speedup", "speed-up against one worker", speedUp(data, model, row, level, now), digits, percent));
    cards.push(card("result-epoch", steps > 0 ? `epoch: ${steps} steps` : "epoch: number of samples not known", epoch, time, percent));
  }
  const where = now.outside.length ? `Outside the measured range: ${now.outside.map((name) => `${name} (${rangeText(model, name)})`).join(", ")}. ${Number.isFinite(now.high) ? "The interval widens as errors grew when extrapolating inside; still a guess." : "No interval can be given: too few values were measured to tell the error beyond them."}` : "Inside the measured range.";
  const at = model.columns.map((name) => `${name}=${row[name]}`).join(",");
  const command = model.command ? `${model.command}${model.columns.map((name) => `,${name}=${row[name]}`).join("")}` : `steplab fit DIR --model ${model.name} --out model.json && steplab predict model.json --at ${quoted(at)} --level ${level}`;
  document.getElementById("what-if-results").replaceChildren(
    element("div", { class: "cards" }, ...cards),
    element("p", { id: "result-range", class: now.outside.length ? "outside" : "soft" }, where),
    element("p", { class: "soft" }, "The same in a terminal: ", element("code", {}, command)),
    element("details", {}, element("summary", {}, "the formula"), element("p", {}, element("code", {}, `${model.target} = ${model.formula}`))),
  );
}

function rangeText(model, name) {
  return name in model.range ? `measured ${model.range[name][0]} to ${model.range[name][1]}` : "a level that was not measured";
}

function menu(id, title, options, value, change) {
  const made = element("select", { id });
  for (const [key, text] of options) made.append(element("option", { value: key }, text));
  made.value = value;
  made.addEventListener("change", () => change(made.value));
  return element("div", { class: "factor" }, element("label", { for: id }, title), made);
}

function drawWhatIf(data) {
  const form = document.getElementById("what-if-form");
  if (!form || !data.models.length) return;
  const model = data.models.find((one) => one.name === chosen.model) ?? data.models[0];
  chosen.model = model.name;
  chosen.row = firstRow(model, data.constants);
  chosen.samples ??= data.samples[chosen.row.dataset ?? data.constants.dataset] ?? Object.values(data.samples)[0] ?? null;
  const update = () => showResults(data, model);
  const models = data.models.map((one) => [one.name, one.name + (one.mape === null ? "" : ` (${Number(one.mape.toPrecision(2))} % off on average)`)]);
  const levels = data.levels.map((level) => [String(level), `${Number((100 * level).toPrecision(6))} %`]);
  const samples = element("input", { id: "samples", type: "number", min: 1, step: 1 });
  samples.value = chosen.samples ?? "";
  samples.addEventListener("input", () => { chosen.samples = samples.valueAsNumber; update(); });
  form.replaceChildren(
    menu("model", "model", models, model.name, (name) => { chosen.model = name; drawWhatIf(data); document.getElementById("model").focus(); }),
    menu("level", "interval", levels, chosen.level, (level) => { chosen.level = level; update(); }),
    ...model.columns.map((name) => factorControl(model, name, update)),
    element("div", { class: "factor" }, element("label", { for: "samples" }, "samples in an epoch"), element("span"), samples),
  );
  update();
}
