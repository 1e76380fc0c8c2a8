// Numbers and parts of the page as people read them.
function formatBytes(bytes) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (bytes >= size) {
      const value = bytes / size;
      return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
    }
  }
  return `${Math.round(bytes)} B`;
}

function formatTime(ns, digits = 4) {
  const size = Math.abs(ns), short = value => String(Number(value.toPrecision(digits)));
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${short(ns / 1e3)} µs`;
  if (size < 1e9) return `${short(ns / 1e6)} ms`;
  return `${short(ns / 1e9)} s`;
}

const formatCount = count => count.toLocaleString("en");
const formatAddress = address => "0x" + address.toString(16);

/** An element with attributes and children; texts are never read as tags. */
function element(tag, attributes = {}, ...children) {
  const space = ["svg", "g", "line", "path", "circle", "text", "rect", "title", "defs", "marker"].includes(tag) && attributes.svg !== false;
  const made = space ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false && name !== "svg") made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

/** Round numbers between two, about `count` of them: in steps of 1, 2 or 5, or of powers of two for bytes. */
function ticks(low, high, count, bytes) {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = bytes ? 2 ** Math.ceil(Math.log2(rough)) : power * [1, 2, 5, 10].find(factor => factor * power >= rough * 0.999);
  const list = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) list.push(value);
  return list;
}

const PURPOSE_COLOURS = {
  "user": [212, 42, 52], "const": [128, 34, 45], "feature": [30, 85, 54], "fixed feature": [46, 70, 45], "intermediate": [174, 38, 46],
  "workspace": [300, 26, 56], "output": [344, 60, 66], "host input": [22, 30, 46], "pool segment": [30, 6, 62], "capture": [266, 34, 58],
  "collective": [195, 60, 38], "variable": [82, 46, 38], "tensor or region": [202, 54, 56],
};

/** The colour of a purpose; `shade` tells neighbours apart. */
function purposeColour(purpose, shade = 0, alpha = 1) {
  const [hue, saturation, light] = PURPOSE_COLOURS[record.purposes[purpose]] ?? [0, 0, 55];
  return shaded(hue, saturation, light, shade, alpha);
}

function shaded(hue, saturation, light, shade, alpha = 1) {
  const lighter = light + [0, 6, -5][shade % 3] + (isDark() ? -4 : 3);
  return `hsl(${hue} ${saturation}% ${lighter}% / ${alpha})`;
}

/** A hue for a name, always the same. */
function hueOf(name) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
  return (Math.abs(hash) * 47) % 360;
}

/** The colour of a block: that of its purpose; of a region of the program that of the task that wrote it first. */
function blockColour(block) {
  const purpose = column["block.purpose"][block], owner = text(column["block.owner"][block]);
  if (record.purposes[purpose] !== "tensor or region" || !owner) return purposeColour(purpose, block);
  return shaded(hueOf(owner), 36, 55, block);
}

const isDark = () => document.documentElement.dataset.theme === "dark";
const cssColour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A canvas of the size of its box, cleared, with one unit for each pixel of the page. */
function prepare(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const draw = canvas.getContext("2d");
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, width, height);
  draw.font = "11px system-ui, sans-serif";
  return draw;
}

const tip = document.getElementById("tip");

function showTip(event, ...children) {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width > innerWidth;
  const below = event.clientY + 16 + height > innerHeight;
  tip.style.left = `${Math.max(4, right ? event.clientX - 16 - width : event.clientX + 16)}px`;
  tip.style.top = `${Math.max(4, below ? event.clientY - 16 - height : event.clientY + 16)}px`;
}

const hideTip = () => { tip.hidden = true; };

/** The frames of a stack, without what calls `main`. */
function framesOf(number) {
  const lines = (record.stacks[number] ?? []).map(text), main = lines.findIndex(line => /^main\b/.test(line));
  return main < 0 ? lines : lines.slice(0, main + 1);
}

function stackLines(number, limit) {
  const lines = framesOf(number);
  const shown = lines.slice(0, limit);
  if (shown.length === 0) return null;
  const rest = lines.length - shown.length;
  return element("ol", {}, ...shown.map(line => element("li", {}, line)), rest > 0 ? element("li", { class: "soft" }, `${rest} more`) : null);
}

const details = document.getElementById("details");

/** Shows facts beside the charts until they are closed. */
function showDetails(title, rows, stack) {
  const list = element("dl", {});
  for (const [name, value] of rows) {
    if (value !== null && value !== undefined && value !== "") list.append(element("dt", {}, name), element("dd", {}, value));
  }
  const close = element("button", { class: "close", "aria-label": "close", onclick: hideDetails }, "×");
  details.replaceChildren(...[close, element("h3", {}, title), list, stackLines(stack, 40)].filter(Boolean));
  details.hidden = false;
}

function hideDetails() { details.hidden = true; }
