"use strict";
// Small line charts: the progress of a run.

function shape(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const brief = (value) => Number(value.toPrecision(3)).toLocaleString("en-GB").replace("-", "−");

// A chart with a line for each name, from 0 on; a point is [seconds, y].
function chart(title, lines) {
  const points = lines.flatMap((line) => line.points);
  if (points.length < 2) return null;
  const ys = points.map((point) => point[1]);
  const right = Math.max(...points.map((point) => point[0]));
  const high = Math.max(...ys) || 1;
  const x = (value) => 44 + 290 * value / (right || 1);
  const y = (value) => 132 - 120 * value / high;
  const last = lines.filter((line) => line.points.length)
    .map((line) => [line, `${line.name} ${brief(line.points.at(-1)[1])}`.trim()]);
  const drawing = shape("svg", { viewBox: "0 0 344 152", role: "img", "aria-label": `${title}, last: ${last.map(([, text]) => text).join(", ")}` });
  for (const value of [0, high / 2, high]) {
    drawing.append(shape("line", { class: "grid", x1: 44, x2: 334, y1: y(value), y2: y(value) }),
      shape("text", { x: 38, y: y(value) + 4, "text-anchor": "end" }, brief(value)));
  }
  drawing.append(shape("text", { x: 334, y: 148, "text-anchor": "end" }, duration(right)));
  lines.forEach((line, index) => {
    drawing.append(shape("polyline", { class: `s${index % 7}`, points: line.points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
  });
  const names = last.map(([line, text]) => make("span", { class: `s${lines.indexOf(line) % 7}`, text }));
  return make("figure", {}, make("figcaption", {}, make("b", { text: title }), ...names), drawing);
}

function drawProgress(curve) {
  const names = Object.keys(curve.at(-1) || {}).filter((name) => name !== "seconds");
  const done = names.map((name) => ({ name, points: curve.map((row) => [row.seconds, row[name] || 0]) }));
  const window = Math.max(1, Math.floor(curve.length / 12)); // points, so that the rate is smooth
  const rates = done.map(({ name, points }) => ({ name, points: points.slice(window)
    .map(([at, value], i) => [at, (value - points[i][1]) / ((at - points[i][0]) || 1)]) }));
  $("curves").replaceChildren(...[chart("items done", done), chart("items per second", rates)].filter(Boolean));
}

if ($("curves")) drawProgress(JSON.parse($("curves").dataset.curve));
