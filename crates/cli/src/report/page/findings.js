// The findings of the checker, each as a card: its text, and a drawing of lanes with both accesses and the edge that is missing.
function fillFindings() {
  const box = document.getElementById("findings"), { findings } = facts.findings;
  if (findings.length === 0) return box.append(element("p", { class: "none" }, "None: contract, order and memory were checked."));
  findings.forEach((finding, index) => box.append(findingCard(finding, index)));
}

function findingCard(finding, index) {
  const clauses = finding.clauses.length ? ` (${finding.clauses.join(", ")})` : "";
  const card = element("article", { class: `finding ${finding.severity}`, id: `finding-${index}`, tabindex: 0 },
    element("h3", {}, element("code", {}, `${finding.severity}[${finding.rule}] `), finding.title + clauses));
  const drawing = drawLanes(finding);
  if (drawing) card.append(element("div", { class: "lanes" }, drawing));
  const withStack = (box, number) => {
    const lines = framesOf(number);
    if (lines.length) box.append(element("pre", {}, lines.join("\n")));
    return box;
  };
  const places = element("ol", {});
  for (const place of finding.places) {
    places.append(withStack(element("li", {}, place.text, element("span", { class: "soft" }, place.call ? ` in ${place.call}, thread ${place.thread}` : "")), place.stack));
  }
  card.append(places, ...finding.facts.map(fact => withStack(element("p", { class: "soft" }, fact.text), fact.stack)), element("p", {}, `→ ${finding.help}`));
  if (finding.count > 1) card.append(element("p", { class: "soft" }, `${formatCount(finding.count)} of this kind; the first is shown.`));
  card.append(element("button", { onclick: () => { timeWindow.goTo(finding.time); document.getElementById("memory").scrollIntoView({ block: "center" }); } }, "show when it happened"));
  return card;
}

/** The place of a task in its columns; -1 if it is not there. */
function taskAt(stream, seq) {
  const streams = column["task.stream"], low = lowerBound(streams, stream), high = lowerBound(streams, stream + 1);
  const at = lowerBound(column["task.seq"], seq, low, high);
  return at < high && column["task.seq"][at] === seq ? at : -1;
}

/** Lanes of the streams and threads of a finding, in the order in which work was submitted. */
function drawLanes(finding) {
  const places = finding.places.map((place, index) => ({ ...place.mark, thread: place.thread, number: index + 1 })).filter(place => place.time !== undefined);
  if (places.length < 2) return null;
  const laneOf = place => place.stream !== null ? `stream ${place.stream}` : `thread ${place.thread}`;
  const lanes = [...new Set(places.map(laneOf))];
  const marks = places.map(place => ({ lane: laneOf(place), time: place.time, label: place.label, number: place.number }));
  for (const place of places.filter(place => place.seq !== null)) {
    const at = taskAt(place.stream, place.seq);
    if (at < 0) continue;
    for (const near of [at - 2, at - 1, at + 1, at + 2]) {
      if (column["task.stream"][near] !== place.stream || marks.some(mark => mark.task === near)) continue;
      const seq = column["task.seq"][near];
      if (places.some(other => other.stream === place.stream && other.seq === seq)) continue;
      marks.push({ lane: laneOf(place), time: column["task.submitted"][near], label: text(column["task.name"][near]), task: near });
    }
  }
  marks.sort((a, b) => a.time - b.time || (a.number ?? 9) - (b.number ?? 9));
  const step = 700 / (marks.length + 1), top = 34, gap = 66, left = 110;
  const where = new Map(marks.map((mark, index) => [mark, { x: left + step * (index + 0.8), y: top + lanes.indexOf(mark.lane) * gap }]));
  const height = top + (lanes.length - 1) * gap + 44;
  const svg = element("svg", { viewBox: `0 0 830 ${height}`, role: "img", "aria-label": "lanes of the finding" },
    element("defs", {}, element("marker", { id: `tip-${findingArrows++}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" },
      element("path", { d: "M0 0L8 4L0 8z", fill: "var(--bad)" }))));
  lanes.forEach((lane, index) => {
    const y = top + index * gap;
    svg.append(element("line", { x1: left, y1: y, x2: 815, y2: y, stroke: "var(--line)", "stroke-width": 2 }),
      element("text", { x: left - 12, y: y + 4, "text-anchor": "end", fill: "var(--soft)" }, lane));
  });
  for (const edge of edgesBetween(marks)) {
    const [a, b] = [where.get(edge.from), where.get(edge.to)];
    svg.append(element("path", { d: `M${a.x} ${a.y}C${a.x + 20} ${(a.y + b.y) / 2} ${b.x - 20} ${(a.y + b.y) / 2} ${b.x} ${b.y}`, fill: "none", stroke: "var(--soft)", "stroke-width": 1.4 }));
  }
  const numbered = marks.filter(mark => mark.number);
  const [first, second] = [numbered.find(mark => mark.number === 1), numbered.find(mark => mark.number === 2)];
  if (first && second && first.lane !== second.lane) {
    const [a, b] = [where.get(first), where.get(second)], down = Math.sign(b.y - a.y);
    svg.append(element("path", { d: `M${a.x} ${a.y + 9 * down}C${a.x + 24} ${(a.y + b.y) / 2} ${b.x - 24} ${(a.y + b.y) / 2} ${b.x} ${b.y - 10 * down}`,
      fill: "none", stroke: "var(--bad)", "stroke-width": 2, "stroke-dasharray": "6 5", "marker-end": `url(#tip-${findingArrows - 1})` }),
      element("text", { x: (a.x + b.x) / 2 + 26, y: (a.y + b.y) / 2 - 4, fill: "var(--bad)", "font-weight": 600 }, "missing"));
  }
  const labels = [];
  for (const mark of [...numbered, ...marks.filter(mark => !mark.number)]) {
    const { x, y } = where.get(mark), lower = lanes.indexOf(mark.lane) === lanes.length - 1 && lanes.length > 1;
    svg.append(element("circle", { cx: x, cy: y, r: mark.number ? 8 : 3.5, fill: mark.number ? "var(--bad)" : "var(--soft)" }, element("title", {}, mark.label)));
    if (mark.number) svg.append(element("text", { x, y: y + 4, "text-anchor": "middle", fill: "#fff", "font-size": 10.5, "font-weight": 700 }, String(mark.number)));
    // A name for which there is no room is shown when one points at it.
    const half = mark.label.length * (mark.number ? 3.5 : 2.9) + 4, at = lower ? y + 24 : y - 15;
    const middle = Math.max(left + half - 20, Math.min(x, 826 - half));
    if (labels.some(other => other.at === at && Math.abs(other.middle - middle) < other.half + half)) continue;
    labels.push({ at, middle, half });
    svg.append(element("text", { x: middle, y: at, "text-anchor": "middle", fill: mark.number ? "var(--ink)" : "var(--soft)", "font-size": mark.number ? 12 : 10.5 }, mark.label));
  }
  return svg;
}

let findingArrows = 0;

/** The records and waits among the tasks of a drawing. */
function edgesBetween(marks) {
  const byTask = new Map(marks.filter(mark => mark.task !== undefined).map(mark => [mark.task, mark]));
  const from = column["edge.record"], to = column["edge.wait"], edges = [];
  for (let edge = 0; edge < from.length; edge++) {
    if (byTask.has(from[edge]) && byTask.has(to[edge])) edges.push({ from: byTask.get(from[edge]), to: byTask.get(to[edge]) });
  }
  return edges;
}
