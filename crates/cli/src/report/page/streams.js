// Streams with their tasks, and host threads with their waits and callbacks. Of tasks that share a pixel one is drawn.
const LANE = 24;

const streamsChart = {
  box: document.getElementById("streams"),
  scroll: 0,
  /** The lane and the span in it that keys have chosen. */
  chosen: { lane: 0, at: -1 },

  /** A lane for each stream of the place that ran something, and one for each host thread. */
  prepareLanes() {
    const lanes = [];
    if (column["mark.began"].length) lanes.push({ name: "marks", low: 0, high: column["mark.began"].length, columns: "mark" });
    const stream = column["task.stream"];
    for (const { stream: number, device } of record.streams) {
      const low = lowerBound(stream, number), high = lowerBound(stream, number + 1);
      if (low < high) lanes.push({ name: `stream ${number}`, device, low, high, isStream: true, number, columns: "task" });
    }
    const thread = column["host.thread"];
    for (let low = 0; low < thread.length;) {
      const high = lowerBound(thread, thread[low] + 1, low);
      lanes.push({ name: `thread ${thread[low]}`, low, high, columns: "host" });
      low = high;
    }
    this.all = lanes;
  },

  lanes() {
    const { device } = currentPlace();
    return this.all.filter(lane => lane.columns !== "task" || device < 0 || lane.device === device);
  },

  draw() {
    const width = this.box.clientWidth, lanes = this.lanes();
    const height = Math.min(560, Math.max(60, lanes.length * LANE + 30));
    this.box.style.height = `${height}px`;
    const draw = prepare(this.box.children[0], width, height);
    drawTimeAxis(draw, width, height);
    const visible = Math.floor((height - 26) / LANE);
    this.scroll = Math.max(0, Math.min(this.scroll, lanes.length - visible));
    this.shown = lanes.slice(this.scroll, this.scroll + visible);
    const note = lanes.length > visible ? `${visible} of ${lanes.length} lanes; scroll with the wheel over the names` : "";
    document.getElementById("streams-note").textContent = note;
    const scale = timeScale(width);
    this.shown.forEach((lane, row) => {
      const y = 6 + row * LANE;
      draw.fillStyle = cssColour(this.chosen.at >= 0 && row + this.scroll === this.chosen.lane ? "--accent" : "--soft");
      draw.textAlign = "right";
      draw.fillText(lane.name, LEFT - 8, y + LANE / 2 + 2);
      draw.save();
      draw.beginPath();
      draw.rect(LEFT, y, scale.inner, LANE);
      draw.clip();
      ({ task: this.drawTasks, host: this.drawHost, mark: this.drawMarks })[lane.columns].call(this, draw, lane, y, scale);
      draw.restore();
    });
    this.drawArrows(draw, scale);
  },

  /** Calls `put` for the spans of a lane that can be told apart, in the order of time. */
  each(lane, began, ended, put) {
    const { begin, end } = timeWindow;
    const step = (end - begin) / Math.max(1, this.box.clientWidth - LEFT - RIGHT);
    let at = Math.max(lane.low, lowerBound(began, begin, lane.low, lane.high) - 1);
    while (at > lane.low && ended[at - 1] > begin) at--;
    let covered = -Infinity;
    while (at < lane.high && began[at] < end) {
      if (ended[at] >= begin && ended[at] > covered) {
        put(at);
        if (ended[at] - began[at] < step) {
          covered = began[at] + step;
          at = Math.max(at + 1, lowerBound(began, covered - step / 2, at + 1, lane.high));
          continue;
        }
      }
      at++;
    }
  },

  drawTasks(draw, lane, y, scale) {
    const began = column["task.began"], ended = column["task.ended"], kind = column["task.kind"], name = column["task.name"];
    this.each(lane, began, ended, task => {
      const x = scale.x(began[task]), right = scale.x(Math.min(ended[task], timeWindow.end));
      const w = Math.max(1, right - x);
      const failed = column["task.failed"][task];
      draw.fillStyle = failed ? cssColour("--bad") : taskColour(kind[task], name[task]);
      draw.fillRect(x, y + 2, w, LANE - 6);
      this.drawLabel(draw, text(name[task]), x, y, w, kind[task] === 3 ? cssColour("--ink") : "#fff");
    });
  },

  drawHost(draw, lane, y, scale) {
    const began = column["host.began"], ended = column["host.ended"], callback = column["host.callback"];
    this.each(lane, began, ended, span => {
      const x = scale.x(began[span]), w = Math.max(1, scale.x(ended[span]) - x);
      draw.fillStyle = callback[span] ? "hsl(32 80% 55%)" : isDark() ? "hsl(215 12% 40%)" : "hsl(215 16% 76%)";
      if (callback[span]) draw.fillRect(x, y + 6, w, LANE - 14); else draw.fillRect(x, y + 3, w, LANE - 8);
    });
  },

  drawMarks(draw, lane, y, scale) {
    const began = column["mark.began"], ended = column["mark.ended"], name = column["mark.text"];
    this.each(lane, began, ended, mark => {
      const x = scale.x(began[mark]), w = Math.max(2, scale.x(ended[mark]) - x);
      draw.fillStyle = taskColour(0, name[mark]);
      draw.fillRect(x, y + 2, w, LANE - 6);
      this.drawLabel(draw, text(name[mark]), x, y, w, "#fff");
    });
  },

  /** A text in a span, as much of it as there is room for. */
  drawLabel(draw, label, x, y, w, colour) {
    if (w < 34) return;
    draw.fillStyle = colour;
    draw.textAlign = "left";
    const from = Math.max(x, LEFT), room = Math.floor((x + w - from - 8) / 6);
    if (room > 2) draw.fillText(label.length > room ? label.slice(0, room - 1) + "…" : label, from + 4, y + LANE / 2 + 3);
  },

  /** From the record of an event to the wait for it. */
  drawArrows(draw, scale) {
    const from = column["edge.record"], to = column["edge.wait"], began = column["task.began"], ended = column["task.ended"];
    const stream = column["task.stream"];
    const row = number => this.shown.findIndex(lane => lane.isStream && lane.number === number);
    const rows = new Map(this.shown.filter(lane => lane.isStream).map(lane => [lane.number, row(lane.number)]));
    const arrows = [];
    draw.save();
    draw.beginPath();
    draw.rect(LEFT, 0, scale.inner, this.box.clientHeight - 18);
    draw.clip();
    draw.strokeStyle = cssColour("--ink");
    draw.fillStyle = cssColour("--ink");
    for (let edge = 0; edge < from.length && arrows.length < 400; edge++) {
      const a = ended[from[edge]], b = Math.max(ended[to[edge]], began[to[edge]]);
      const [rowA, rowB] = [rows.get(stream[from[edge]]), rows.get(stream[to[edge]])];
      if (rowA === undefined || rowB === undefined || rowA === rowB) continue;
      if (!(b >= timeWindow.begin && a <= timeWindow.end) || a === Infinity || b === Infinity) continue;
      const [x1, y1, x2, y2] = [scale.x(a), 6 + rowA * LANE + (rowB > rowA ? LANE - 4 : 2), scale.x(b), 6 + rowB * LANE + (rowB > rowA ? 2 : LANE - 4)];
      arrows.push([x1, y1, x2, y2]);
    }
    // Where there are many, heads would hide what they point at.
    const isCrowded = arrows.length > 60;
    draw.globalAlpha = isCrowded ? 0.25 : 0.65;
    for (const [x1, y1, x2, y2] of arrows) {
      draw.beginPath();
      draw.moveTo(x1, y1);
      draw.bezierCurveTo(x1 + 12, (y1 + y2) / 2, x2 - 12, (y1 + y2) / 2, x2, y2);
      draw.stroke();
      if (isCrowded) continue;
      const side = y2 > y1 ? -1 : 1;
      draw.beginPath();
      draw.moveTo(x2, y2);
      draw.lineTo(x2 - 3, y2 + side * 6);
      draw.lineTo(x2 + 3, y2 + side * 6);
      draw.fill();
    }
    draw.restore();
  },

  /** Chooses a lane below or above, and shows it. */
  chooseLane(by) {
    const lanes = this.lanes(), lane = Math.max(0, Math.min(lanes.length - 1, this.chosen.lane + by));
    this.chosen = { lane, at: -1 };
    if (lane < this.scroll) this.scroll = lane;
    else if (this.shown && lane >= this.scroll + this.shown.length) this.scroll = lane - this.shown.length + 1;
    timeWindow.redraw();
    this.chooseSpan(0);
  },

  /** Chooses the span after or before in the chosen lane, at first the one at the marked moment, and shows what it is. */
  chooseSpan(by) {
    const lane = this.lanes()[this.chosen.lane];
    if (!lane) return;
    const began = column[`${lane.columns}.began`], { low, high } = lane;
    const first = Math.min(high - 1, Math.max(low, lowerBound(began, timeWindow.marked + 0.5, low, high) - 1));
    const at = this.chosen.at < 0 ? first : Math.max(low, Math.min(high - 1, this.chosen.at + by));
    this.chosen.at = at;
    timeWindow.goTo(began[at]);
    showSpan({ lane, at });
  },

  mark() {
    const width = this.box.clientWidth, height = this.box.clientHeight;
    drawMark(prepare(this.box.children[1], width, height), width, height);
  },

  /** The span at a place of the chart. */
  find(event) {
    const box = this.box.getBoundingClientRect();
    const x = event.clientX - box.left, row = Math.floor((event.clientY - box.top - 6) / LANE);
    const lane = this.shown?.[row];
    if (!lane || x < LEFT) return null;
    const scale = timeScale(this.box.clientWidth);
    const low = scale.time(x - 2), high = scale.time(x + 2);
    const began = column[`${lane.columns}.began`], ended = column[`${lane.columns}.ended`];
    let found = null;
    this.each(lane, began, ended, at => {
      if (began[at] > high || ended[at] < low) return;
      if (found === null || ended[at] - began[at] <= ended[found] - began[found]) found = at;
    });
    return found === null ? null : { lane, at: found };
  },
};

/** Tasks of one name have one colour. */
function taskColour(kind, name) {
  if (kind === 3) return isDark() ? "hsl(45 30% 34%)" : "hsl(45 60% 82%)";
  if (kind === 2) return isDark() ? "hsl(45 60% 55%)" : "hsl(40 70% 45%)";
  if (kind === 1) return "hsl(330 40% 55%)";
  return `hsl(${hueOf(text(name))} 38% ${isDark() ? 46 : 52}%)`;
}

function taskRows(task) {
  const of = name => column[`task.${name}`][task];
  const nodes = record.plans[of("plan")] ?? [];
  return [
    ["stream", `${of("stream")}, task ${of("seq")}`],
    ["kind", ["work", "host function", "record of an event", "wait for an event"][of("kind")]],
    ["call", text(of("call"))],
    ["submitted", formatTime(of("submitted"))],
    ["waited", formatTime(of("began") - of("submitted"))],
    ["ran", of("ended") === Infinity ? "its end is not in the record" : `${formatTime(of("ended") - of("began"))}, from ${formatTime(of("began"))}`],
    ["touches", of("touched") ? formatBytes(of("touched")) : null],
    ["failed", of("failed") ? "yes" : null],
    ["steps", nodes.length ? nodes.slice(0, 30).join(", ") + (nodes.length > 30 ? `, and ${nodes.length - 30} more` : "") : null],
  ];
}

function showSpan({ lane, at }) {
  if (lane.isStream) return showDetails(text(column["task.name"][at]), taskRows(at), column["task.stack"][at]);
  const of = name => column[`${lane.columns}.${name}`]?.[at];
  showDetails(text(of("text")), [["thread", of("thread")], ["in", text(of("call"))],
    ["time", `${formatTime(of("ended") - of("began"))}, from ${formatTime(of("began"))}`]], 0);
}

function tipOfSpan(event, { lane, at }) {
  const of = name => column[`${lane.columns}.${name}`]?.[at];
  showTip(event, element("b", {}, text(lane.isStream ? of("name") : of("text"))),
    element("div", {}, of("ended") === Infinity ? "no end in the record" : formatTime(of("ended") - of("began"))),
    element("div", { class: "soft" }, `${lane.name}${lane.isStream ? `, task ${of("seq")}` : ""}, from ${formatTime(of("began"))}${text(of("call")) ? `, in ${text(of("call"))}` : ""}`));
}
