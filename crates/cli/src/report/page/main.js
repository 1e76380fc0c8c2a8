// Puts the parts of the page together.
let cssPaper = "#fff";
let placeIndex = 0;
const placeHistories = new Map();
const currentPlace = () => record.places[placeIndex] ?? { device: 0, name: "device 0", capacity: 0 };

function choosePlace(index) {
  placeIndex = index;
  const { device } = currentPlace();
  if (!placeHistories.has(device)) placeHistories.set(device, new PlaceHistory(device));
  const history = placeHistories.get(device);
  memoryChart.setPlace(history);
  timeWindow.marked = history.peak.time;
  document.querySelectorAll("#places button").forEach((button, at) => button.setAttribute("aria-selected", at === index));
  fillLegend();
  fillCards();
  timeWindow.redraw();
}

function fillHeader() {
  const heading = document.getElementById("command");
  heading.textContent = (record.command || `process ${record.pid}`).replace(/^\S*\//, "");
  heading.title = record.command;
  const end = record.ended_in_order ? "ended in order" : "did not end in order";
  document.getElementById("about").textContent = `process ${record.pid} · ${formatTime(record.end)} · ${formatCount(record.entries)} entries · ${end}`;
  if (record.places.length > 1) {
    document.getElementById("places").append(...record.places.map((place, index) => element("button", { role: "tab", onclick: () => choosePlace(index) }, place.name)));
  }
  if (record.damage.length) {
    const damage = document.getElementById("damage");
    damage.textContent = `Parts of the record could not be read: ${record.damage.join("; ")}`;
    damage.hidden = false;
  }
}

function fillLegend() {
  const used = new Set(), purpose = column["block.purpose"], divided = column["block.divided"];
  for (const block of memoryChart.history.blocks) if (!divided[block]) used.add(purpose[block]);
  const button = number => element("button", {
    "aria-pressed": !memoryChart.hidden.has(number), title: "show or hide",
    onclick: () => {
      if (!memoryChart.hidden.delete(number)) memoryChart.hidden.add(number);
      fillLegend();
      timeWindow.redraw();
    },
  }, element("span", { class: "swatch", style: `background:${purposeColour(number)}` }), record.purposes[number] === "tensor or region" ? "tensor or region, in a colour for each operator" : record.purposes[number]);
  const line = element("span", {}, currentPlace().device < 0 ? "— taken from the host" : "— taken from the device");
  document.getElementById("legend").replaceChildren(...[...used].sort((a, b) => a - b).map(button), line);
  const swatch = (colour, name) => element("span", {}, element("i", { class: "swatch", style: `background:${colour}` }), name);
  document.getElementById("map-legend").replaceChildren(swatch("var(--free)", "free"), swatch("var(--waiting)", "freed, not reusable yet"), swatch("var(--rounding)", `rounding: behind a block, to the next ${GRANULE} B`));
}

function fillCards() {
  const history = memoryChart.history, { summary } = facts, place = currentPlace();
  const card = (value, label, { bad = false, go } = {}) => element("div", { class: `card${bad ? " bad" : ""}${go ? " clickable" : ""}`, ...(go ? { onclick: go, tabindex: 0, role: "button" } : {}) }, element("b", {}, value), element("span", {}, label));
  const ratio = history.peak.bytes ? history.peakReserved / history.peak.bytes : 0;
  const ran = summary.tasks.reduce((sum, task) => sum + task.submitted, 0);
  const waited = summary.waits.reduce((sum, wait) => sum + wait.time.total_ns, 0);
  const { errors, notes } = facts.findings;
  document.getElementById("cards").replaceChildren(
    card(formatBytes(history.peak.bytes), `most in blocks of ${place.name}, at ${formatTime(history.peak.time)}`, { go: () => timeWindow.goTo(history.peak.time) }),
    card(formatBytes(history.peakReserved), `most taken${place.capacity ? ` of ${formatBytes(place.capacity)}` : ""}`),
    card(ratio ? ratio.toFixed(2) : "–", "taken over blocks, at their peaks"),
    card(formatCount(ran), "tasks"),
    card(formatTime(waited), "host threads waited"),
    card(errors ? String(errors) : "none", `findings${notes ? `, and ${notes} note${notes > 1 ? "s" : ""}` : ""}`, { bad: errors > 0, go: () => nextFinding() }));
}

const overview = {
  box: document.getElementById("overview"),
  draw() {
    const width = this.box.clientWidth, height = this.box.clientHeight, history = memoryChart.history;
    const draw = prepare(this.box.children[0], width, height);
    const inner = Math.max(1, Math.floor(width - LEFT - RIGHT)), whole = Math.max(1, record.end);
    const x = time => LEFT + time / whole * inner, top = Math.max(1, history.peakReserved), y = bytes => height - 5 - bytes / top * (height - 11);
    const curve = (list, colour) => {
      const most = new Float64Array(inner);
      let last = 0, column = 0;
      for (let i = 0; i < list.length; i++) {
        const at = Math.min(inner - 1, Math.floor(history.times[i] / whole * inner));
        while (column < at) most[++column] = last;
        last = list[i];
        if (last > most[at]) most[at] = last;
      }
      while (column < inner - 1) most[++column] = last;
      draw.fillStyle = colour;
      most.forEach((bytes, at) => draw.fillRect(LEFT + at, y(bytes), 1, height - 5 - y(bytes)));
    };
    draw.globalAlpha = 0.28;
    curve(history.reserved, cssColour("--soft"));
    draw.globalAlpha = 0.75;
    curve(history.live, cssColour("--accent"));
    draw.globalAlpha = 1;
    const [a, b] = [x(timeWindow.begin), Math.max(x(timeWindow.begin) + 2, x(timeWindow.end))];
    if (b - a < inner - 1) {
      draw.fillStyle = cssColour("--ground");
      draw.globalAlpha = 0.72;
      draw.fillRect(LEFT, 0, a - LEFT, height);
      draw.fillRect(b, 0, width - RIGHT - b, height);
      draw.globalAlpha = 1;
      draw.strokeStyle = cssColour("--accent");
      draw.strokeRect(a + 0.5, 1.5, b - a - 1, height - 3);
    }
  },
  mark() {},
  move(event) {
    const box = this.box.getBoundingClientRect(), share = (event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
    const half = (timeWindow.end - timeWindow.begin) / 2;
    timeWindow.show(share * record.end - half, share * record.end + half);
  },
};

let findingIndex = -1;

function nextFinding() {
  const cards = document.querySelectorAll(".finding");
  if (cards.length === 0) return document.getElementById("findings-section").scrollIntoView({ block: "center" });
  findingIndex = (findingIndex + 1) % cards.length;
  cards[findingIndex].scrollIntoView({ block: "center" });
  cards[findingIndex].focus({ preventScroll: true });
}

function step(direction) {
  const { times } = memoryChart.history;
  if (times.length === 0) return;
  const at = direction > 0 ? memoryChart.history.before(timeWindow.marked) : lowerBound(times, timeWindow.marked) - 1;
  timeWindow.goTo(times[Math.max(0, Math.min(at, times.length - 1))]);
}

function selectNeighbour(direction) {
  const blocks = memoryChart.atMark();
  if (blocks.length === 0) return;
  const at = blocks.indexOf(memoryChart.selected);
  memoryChart.select(blocks[at < 0 ? (direction > 0 ? 0 : blocks.length - 1) : Math.max(0, Math.min(blocks.length - 1, at + direction))]);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  cssPaper = cssColour("--paper");
  if (memoryChart.history) { fillLegend(); timeWindow.redraw(); }
}

const hasFocus = chart => document.activeElement === chart.box;

const keys = {
  ArrowLeft: () => timeWindow.pan(-0.2), ArrowRight: () => timeWindow.pan(0.2),
  "+": () => timeWindow.zoom(0.6, timeWindow.marked), "=": () => timeWindow.zoom(0.6, timeWindow.marked), "-": () => timeWindow.zoom(1 / 0.6, timeWindow.marked),
  0: () => timeWindow.show(0, record.end), "[": () => step(-1), "]": () => step(1),
  p: () => timeWindow.goTo(memoryChart.history.peak.time),
  ArrowUp: () => hasFocus(streamsChart) ? streamsChart.chooseLane(-1) : selectNeighbour(1),
  ArrowDown: () => hasFocus(streamsChart) ? streamsChart.chooseLane(1) : selectNeighbour(-1),
  ",": () => streamsChart.chooseSpan(-1), ".": () => streamsChart.chooseSpan(1),
  y: () => { memoryChart.scale = { auto: "taken", taken: "blocks", blocks: "auto" }[memoryChart.scale]; timeWindow.redraw(); },
  f: nextFinding, d: () => choosePlace((placeIndex + 1) % Math.max(1, record.places.length)),
  t: () => setTheme(isDark() ? "light" : "dark"), Escape: () => { hideDetails(); memoryChart.select(-1); },
  "?": () => document.getElementById("keys").showModal(),
};

function connect() {
  document.getElementById("theme").addEventListener("click", keys.t);
  document.getElementById("help").addEventListener("click", keys["?"]);
  document.addEventListener("keydown", event => {
    const isTyping = document.getElementById("keys").open || event.target.closest?.("input, textarea");
    const scrolls = event.key.startsWith("Arrow") && !event.target.closest?.(".chart");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || scrolls || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const hover = (chart, find, show) => {
    chart.box.addEventListener("pointermove", event => {
      if (event.buttons) return;
      const found = find(event);
      if (found === null) hideTip(); else show(event, found);
    });
    chart.box.addEventListener("pointerleave", hideTip);
  };
  hover(memoryChart, event => memoryChart.find(event), (event, found) => typeof found === "number" ? tipOfBlock(event, found)
    : showTip(event, element("b", {}, "smaller blocks"), element("div", { class: "soft" }, "zoom in to tell them apart")));
  hover(mapChart, event => mapChart.find(event), tipOfBlock);
  hover(streamsChart, event => streamsChart.find(event), tipOfSpan);
  makeZoomable(memoryChart.box, memoryChart.box.children[1], event => {
    const found = memoryChart.find(event);
    if (typeof found === "number") memoryChart.select(found);
  });
  makeZoomable(streamsChart.box, streamsChart.box.children[1], event => {
    const found = streamsChart.find(event);
    if (found) showSpan(found);
  });
  mapChart.box.addEventListener("click", event => { const found = mapChart.find(event); if (found !== null) showBlock(found); });
  streamsChart.box.addEventListener("wheel", event => {
    if (event.clientX - streamsChart.box.getBoundingClientRect().left > LEFT) return;
    event.preventDefault();
    streamsChart.scroll += Math.sign(event.deltaY);
    timeWindow.redraw();
  }, { passive: false });
  for (const kind of ["pointerdown", "pointermove"]) overview.box.addEventListener(kind, event => { if (event.buttons) overview.move(event); });
  overview.box.addEventListener("dblclick", keys[0]);
  new ResizeObserver(() => timeWindow.redraw()).observe(document.querySelector("main"));
}

async function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  fillHeader();
  if (typeof DecompressionStream === "undefined") {
    document.getElementById("cards").append("This browser cannot unpack the data of the page; one from 2023 or later can.");
    return;
  }
  await loadColumns();
  streamsChart.prepareLanes();
  [overview, memoryChart, streamsChart, mapChart].forEach(chart => timeWindow.listen(() => chart.draw(), () => chart.mark()));
  connect();
  choosePlace(0);
  fillFindings();
  fillTables();
  requestAnimationFrame(() => requestAnimationFrame(() => { document.body.dataset.ready = String(Math.round(performance.now())); }));
}

start();
