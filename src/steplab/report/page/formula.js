// Formulas are data: a tree of nodes, as steplab.models.formulas.formula writes it. Nothing of it is ever run as code.
const MANY = { add: (a, b) => a + b, mul: (a, b) => a * b, max: Math.max, min: Math.min };
const TWO = { sub: (a, b) => a - b, div: (a, b) => a / b, pow: Math.pow };
const ONE = { neg: (a) => -a, log2: Math.log2, log: Math.log, exp: Math.exp, sqrt: Math.sqrt, abs: Math.abs };

function valueOf(node, row) {
  const name = node.op;
  if (name === "number") return node.value;
  if (name === "column") return Number(row[node.name]);
  if (name === "level") return Object.hasOwn(node.values, row[node.column]) ? node.values[row[node.column]] : NaN;
  const args = node.args.map((arg) => valueOf(arg, row));
  if (name === "bumps") return bumps(args, node.points, node.weights);
  if (Object.hasOwn(MANY, name)) return args.reduce((a, b) => MANY[name](a, b));
  return Object.hasOwn(TWO, name) ? TWO[name](args[0], args[1]) : Object.hasOwn(ONE, name) ? ONE[name](args[0]) : NaN;
}

// The sum of weight_k · exp(−½·|at − point_k|²).
function bumps(at, points, weights) {
  let sum = 0;
  points.forEach((point, k) => {
    const squared = point.reduce((total, x, j) => total + (at[j] - x) * (at[j] - x), 0);
    sum += Math.exp(-0.5 * squared) * weights[k];
  });
  return sum;
}

// How far a value lies outside of low..high, in widths of that range; logarithmic where all is positive.
function excess(value, low, high) {
  if (low > 0 && value > 0) [value, low, high] = [Math.log(value), Math.log(low), Math.log(high)];
  const width = high - low || Math.max(Math.abs(high), 1);
  return Math.max(low - value, value - high, 0) / width;
}

// How far a value lies outside of low..high: a logarithm of the ratio for positive ranges, else in widths.
function distance(value, low, high) {
  if (low > 0) {
    const log = Math.log(Math.max(value, low * 1e-3));
    return Math.max(Math.log(low) - log, log - Math.log(high), 0);
  }
  return Math.max(low - value, value - high, 0) / (high - low || Math.max(Math.abs(high), 1));
}

// By how much the interval widens for one factor; NaN where the data cannot tell. Models saved before have no rates.
function widening(known, name, value, low, high) {
  if (!known.growth) return 2 * excess(value, low, high);
  const beyond = distance(value, low, high);
  const rate = known.growth[name];
  return rate === null || rate === undefined ? (beyond > 1e-9 ? NaN : 0) : rate * beyond;
}

// Value, interval and the factors that leave the measured range, as `steplab predict` computes them.
function predict(model, row, level) {
  const value = valueOf(model.tree, row);
  const known = model.interval;
  let spread = 1;
  const outside = [];
  for (const [name, levels] of Object.entries(model.levels)) if (!levels.includes(row[name])) outside.push(name);
  for (const [name, [low, high]] of Object.entries(model.range)) {
    spread += widening(known, name, row[name], low, high);
    const margin = 1e-9 * Math.max(Math.abs(low), Math.abs(high));
    if (row[name] < low - margin || row[name] > high + margin) outside.push(name);
  }
  return { value, ...bounds(known, value, known.quantiles[level], spread), outside };
}

function bounds(known, value, quantile, spread) {
  if (known.kind === "ratio") {
    const size = Math.min(Math.max(value, known.smallest), known.largest) / known.typical;
    const half = Math.min((quantile / Math.pow(size, known.power)) * spread, known.most);
    const centre = Math.max(value, known.floor);
    const low = centre * Math.exp(-half);
    return { low: value > 0 ? Math.min(low, value) : low, high: centre * Math.exp(half) };
  }
  const half = quantile * Math.pow(Math.max(Math.abs(value), known.floor), known.power) * spread;
  return { low: known.positive ? Math.min(value, Math.max(value - half, 0)) : value - half, high: value + half };
}
