// Memory over time, stacked by block. Each pixel of the width shows the moment in it that had the most memory. The blocks that
// are large enough to be seen are drawn one by one, the others together by purpose.
const MOST_BLOCKS = 4000;

/** The changes of one place (a device, or the host) in the order of time, with what they add up to. */
class PlaceHistory {
  constructor(device) {
    this.device = device;
    const changes = column[`changes.${device}`] ?? new Int32Array(0);
    const made = column["block.made"], freed = column["block.freed"], bytes = column["block.bytes"];
    const divided = column["block.divided"], outer = column["block.class"];
    const count = changes.length;
    this.changes = changes;
    this.times = new Float64Array(count);
    this.live = new Float64Array(count);
    this.reserved = new Float64Array(count);
    let live = 0, reserved = 0;
    this.peak = { bytes: 0, time: 0 };
    this.peakReserved = 0;
    for (let i = 0; i < count; i++) {
      const block = changes[i] >> 1, isFree = changes[i] & 1;
      const change = isFree ? -bytes[block] : bytes[block];
      if (!divided[block]) live += change;
      if (outer[block] === 0) reserved += change;
      this.times[i] = isFree ? freed[block] : made[block];
      this.live[i] = live;
      this.reserved[i] = reserved;
      if (live > this.peak.bytes) this.peak = { bytes: live, time: this.times[i] };
      if (reserved > this.peakReserved) this.peakReserved = reserved;
    }
    this.blocks = Int32Array.from(new Set(Array.from(changes, change => change >> 1))).sort();
  }

  /** The number of changes up to a time, that time included. */
  before(time) { return lowerBound(this.times, time + 0.5); }
}

const memoryChart = {
  box: document.getElementById("memory"),
  hidden: new Set(),
  selected: -1,
  /** What the height shows: `taken`, `blocks`, or `auto`, which leaves out what is taken where blocks would be too small to see. */
  scale: "auto",

  setPlace(history) { this.history = history; this.selected = -1; },

  /** For each pixel: which change has the most memory after it, and the purposes of all that is live then. */
  sample(columns) {
    const { times, live, reserved, changes } = this.history;
    const { begin, end } = timeWindow;
    const purposes = record.purposes.length;
    const bytes = column["block.bytes"], purpose = column["block.purpose"], divided = column["block.divided"];
    const at = new Float64Array(columns).fill(NaN), total = new Float64Array(columns), taken = new Float64Array(columns);
    const byPurpose = new Float64Array(columns * purposes);
    const running = new Float64Array(purposes);
    let next = 0;
    const apply = () => {
      const block = changes[next] >> 1;
      if (!divided[block]) running[purpose[block]] += changes[next] & 1 ? -bytes[block] : bytes[block];
      next++;
    };
    const first = this.history.before(begin);
    while (next < first) apply();
    for (let c = 0; c < columns; c++) {
      const from = begin + (end - begin) * c / columns, to = begin + (end - begin) * (c + 1) / columns;
      const keep = time => {
        at[c] = time;
        total[c] = next > 0 ? live[next - 1] : 0;
        for (let p = 0; p < purposes; p++) byPurpose[c * purposes + p] = running[p];
      };
      keep(from);
      taken[c] = next > 0 ? reserved[next - 1] : 0;
      while (next < times.length && times[next] < to) {
        apply();
        if (reserved[next - 1] > taken[c]) taken[c] = reserved[next - 1];
        if (live[next - 1] > total[c]) keep(times[next - 1]);
      }
    }
    return { at, total, taken, byPurpose };
  },

  /** The blocks with the largest areas in the window, in the order in which they were made. */
  choose() {
    const made = column["block.made"], freed = column["block.freed"], bytes = column["block.bytes"], divided = column["block.divided"];
    const { begin, end } = timeWindow;
    const { blocks } = this.history;
    const histogram = new Int32Array(128);
    const bucket = block => {
      if (divided[block] || made[block] >= end || freed[block] <= begin || this.hidden.has(column["block.purpose"][block])) return -1;
      const length = Math.min(freed[block], end) - Math.max(made[block], begin);
      return Math.min(127, Math.max(0, Math.floor(Math.log2(bytes[block] * Math.max(length, 1)))));
    };
    for (const block of blocks) {
      const at = bucket(block);
      if (at >= 0) histogram[at]++;
    }
    let threshold = 127, count = histogram[127];
    while (threshold > 0 && count + histogram[threshold - 1] <= MOST_BLOCKS) count += histogram[--threshold];
    return blocks.filter(block => bucket(block) >= threshold);
  },

  draw() {
    const width = this.box.clientWidth, height = this.box.clientHeight;
    const draw = prepare(this.box.children[0], width, height);
    const scale = timeScale(width), columns = Math.max(1, Math.floor(scale.inner));
    const purposes = record.purposes.length;
    const { at, total, taken, byPurpose } = this.sample(columns);
    for (let c = 0; c < columns; c++) {
      for (const purpose of this.hidden) {
        total[c] -= byPurpose[c * purposes + purpose];
        byPurpose[c * purposes + purpose] = 0;
      }
    }
    const capacity = currentPlace().capacity;
    const largest = list => list.reduce((a, b) => Math.max(a, b), 0);
    const [mostTaken, mostLive] = [largest(taken), largest(total)];
    const showsTaken = this.scale === "auto" ? mostLive * 8 > mostTaken : this.scale === "taken";
    const most = Math.max(1, mostLive, showsTaken ? mostTaken : 0);
    const top = showsTaken && capacity > 0 && most * 1.3 >= capacity ? Math.max(most, capacity) * 1.04 : most * 1.08;
    const ground = height - 18, y = bytes => ground - bytes / top * (ground - 8);
    drawTimeAxis(draw, width, height);
    draw.textAlign = "right";
    if (mostLive + mostTaken === 0) {
      draw.fillStyle = cssColour("--soft");
      draw.fillText("nothing is taken in this time", LEFT + 180, ground - 12);
    }
    for (const bytes of ticks(0, top, 5, true).filter(bytes => mostLive + mostTaken > 0)) {
      draw.fillStyle = cssColour("--soft");
      draw.fillText(formatBytes(bytes), LEFT - 8, y(bytes) + 4);
      draw.strokeStyle = cssColour("--grid");
      draw.beginPath();
      draw.moveTo(LEFT, Math.round(y(bytes)) + 0.5);
      draw.lineTo(width - RIGHT, Math.round(y(bytes)) + 0.5);
      draw.stroke();
    }
    this.layout = this.stack(at, columns);
    draw.save();
    draw.beginPath();
    draw.rect(LEFT, 0, columns, ground);
    draw.clip();
    this.drawBlocks(draw, y);
    this.drawRest(draw, y, byPurpose);
    this.drawReserved(draw, y, taken);
    draw.restore();
    const above = [[capacity, "capacity"], [mostTaken, "taken"]].filter(([bytes]) => bytes > top).map(([bytes, name]) => `${name} ${formatBytes(bytes)} ↑`);
    draw.fillStyle = cssColour("--soft");
    draw.textAlign = "right";
    draw.fillText(above.join("   "), width - RIGHT - 6, 15);
    this.drawCapacity(draw, y, capacity, top, width);
    this.y = y;
  },

  /** Where each chosen block lies above those that were made before it, pixel by pixel. */
  stack(at, columns) {
    const made = column["block.made"], freed = column["block.freed"], bytes = column["block.bytes"], purpose = column["block.purpose"];
    const height = new Float64Array(columns), chosen = new Float64Array(columns * record.purposes.length);
    const spans = [];
    for (const block of this.choose()) {
      const first = lowerBound(at, made[block]), last = lowerBound(at, freed[block]);
      if (first >= last) continue;
      const base = new Float64Array(last - first);
      for (let c = first; c < last; c++) {
        base[c - first] = height[c];
        height[c] += bytes[block];
        chosen[c * record.purposes.length + purpose[block]] += bytes[block];
      }
      spans.push({ block, first, last, base });
    }
    return { at, columns, spans, height, chosen };
  },

  drawBlocks(draw, y) {
    const bytes = column["block.bytes"];
    for (const { block, first, last, base } of this.layout.spans) {
      draw.beginPath();
      let up = NaN;
      for (let c = first; c < last; c++) {
        const here = y(base[c - first] + bytes[block]);
        if (here !== up) { draw.lineTo(LEFT + c, here); up = here; }
        draw.lineTo(LEFT + c + 1, here);
      }
      let down = NaN;
      for (let c = last - 1; c >= first; c--) {
        const here = y(base[c - first]);
        if (here !== down) { draw.lineTo(LEFT + c + 1, here); down = here; }
        draw.lineTo(LEFT + c, here);
      }
      draw.closePath();
      draw.fillStyle = blockColour(block);
      draw.fill();
      if (y(0) - y(bytes[block]) > 3 && last - first > 2) {
        draw.strokeStyle = cssPaper;
        draw.lineWidth = 0.6;
        draw.stroke();
        draw.lineWidth = 1;
      }
    }
  },

  /** What is too small to be drawn by itself. */
  drawRest(draw, y, byPurpose) {
    const { columns, height, chosen } = this.layout;
    const purposes = record.purposes.length;
    const base = Float64Array.from(height);
    for (let purpose = 0; purpose < purposes; purpose++) {
      draw.fillStyle = purposeColour(purpose, 0, 0.75);
      for (let c = 0; c < columns; c++) {
        const rest = byPurpose[c * purposes + purpose] - chosen[c * purposes + purpose];
        if (rest < 0.5) continue;
        draw.fillRect(LEFT + c, y(base[c] + rest), 1, y(base[c]) - y(base[c] + rest));
        base[c] += rest;
      }
    }
    this.layout.top = base;
  },

  drawReserved(draw, y, taken) {
    draw.strokeStyle = cssColour("--ink");
    draw.globalAlpha = 0.75;
    draw.beginPath();
    taken.forEach((bytes, c) => { draw.lineTo(LEFT + c, y(bytes)); draw.lineTo(LEFT + c + 1, y(bytes)); });
    draw.stroke();
    draw.globalAlpha = 1;
  },

  drawCapacity(draw, y, capacity, top, width) {
    if (!capacity || capacity > top) return;
    draw.strokeStyle = cssColour("--bad");
    draw.setLineDash([6, 4]);
    draw.beginPath();
    draw.moveTo(LEFT, y(capacity));
    draw.lineTo(width - RIGHT, y(capacity));
    draw.stroke();
    draw.setLineDash([]);
    draw.fillText(`capacity ${formatBytes(capacity)}`, width - RIGHT - 6, y(capacity) + 13);
  },

  mark() {
    const width = this.box.clientWidth, height = this.box.clientHeight;
    const draw = prepare(this.box.children[1], width, height);
    drawMark(draw, width, height);
    const span = this.layout?.spans.find(({ block }) => block === this.selected);
    if (!span) return;
    const bytes = column["block.bytes"][span.block];
    draw.strokeStyle = cssColour("--ink");
    draw.lineWidth = 1.6;
    draw.beginPath();
    for (let c = span.first; c < span.last; c++) {
      draw.lineTo(LEFT + c, this.y(span.base[c - span.first] + bytes));
      draw.lineTo(LEFT + c + 1, this.y(span.base[c - span.first] + bytes));
    }
    for (let c = span.last - 1; c >= span.first; c--) {
      draw.lineTo(LEFT + c + 1, this.y(span.base[c - span.first]));
      draw.lineTo(LEFT + c, this.y(span.base[c - span.first]));
    }
    draw.closePath();
    draw.stroke();
    draw.lineWidth = 1;
  },

  /** The block at a place of the chart: its number, `"rest"` for small ones, `"unused"` below the reserved line, or null. */
  find(event) {
    const box = this.box.getBoundingClientRect();
    const c = Math.floor(event.clientX - box.left - LEFT), y = event.clientY - box.top;
    if (!this.layout || c < 0 || c >= this.layout.columns) return null;
    const bytes = column["block.bytes"];
    for (const { block, first, last, base } of this.layout.spans) {
      if (c < first || c >= last) continue;
      if (y <= this.y(base[c - first]) && y >= this.y(base[c - first] + bytes[block])) return block;
    }
    if (y >= this.y(this.layout.top[c]) && y <= this.y(this.layout.height[c])) return "rest";
    return null;
  },

  /** The blocks at the marked moment, from below to above. */
  atMark() {
    const { marked } = timeWindow;
    const made = column["block.made"], freed = column["block.freed"];
    return this.layout.spans.map(({ block }) => block).filter(block => made[block] <= marked && freed[block] > marked);
  },

  select(block) {
    this.selected = block;
    this.mark();
    if (block >= 0) showBlock(block);
  },
};

/** All that is known of a block. */
function blockRows(block) {
  const of = name => column[`block.${name}`][block];
  const life = of("freed") - of("made");
  const stream = of("stream");
  return [
    ["bytes", `${formatBytes(of("bytes"))} (${formatCount(of("bytes"))})`],
    ["address", formatAddress(of("address"))],
    ["memory", text(of("kind"))],
    ["for", record.purposes[of("purpose")]],
    ["owner", text(of("owner"))],
    ["call", text(of("call"))],
    ["stream", stream < 0 ? null : String(stream)],
    ["made", formatTime(of("made"))],
    ["freed", of("freed") === Infinity ? "never" : `${formatTime(of("freed"))}, after ${formatTime(life)}`],
    ["reusable", of("freed") === Infinity || of("reusable") === of("freed") ? null
      : of("reusable") === Infinity ? "not in this record" : `${formatTime(of("reusable") - of("freed"))} after the free`],
  ];
}

const blockTitle = block => text(column["block.owner"][block]) || text(column["block.call"][block]) || "a block";

function showBlock(block) { showDetails(blockTitle(block), blockRows(block), column["block.stack"][block]); }

function tipOfBlock(event, block) {
  const of = name => column[`block.${name}`][block];
  const life = of("freed") === Infinity ? "never freed" : `lives ${formatTime(of("freed") - of("made"))}`;
  showTip(event, element("b", {}, `${formatBytes(of("bytes"))} · ${record.purposes[of("purpose")]}`),
    element("div", {}, blockTitle(block)),
    element("div", { class: "soft" }, `${formatAddress(of("address"))}, ${life}, from ${formatTime(of("made"))}`),
    stackLines(of("stack"), 6) ?? "");
}
