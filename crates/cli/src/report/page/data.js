// The data of the page: facts (texts, tables, findings) and columns (long lists of numbers, compressed).
const facts = JSON.parse(document.getElementById("facts").textContent);
const record = facts.record;
const column = {};

async function loadColumns() {
  const letters = atob(document.getElementById("columns").textContent.trim());
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const types = { u8: Uint8Array, i32: Int32Array, f64: Float64Array };
  for (const { name, type, offset, count } of facts.columns) {
    column[name] = new types[type](bytes, offset, count);
  }
}

const text = number => record.texts[number];

/** The first place in `list`, from `low` to `high`, whose value is not below `value`. */
function lowerBound(list, value, low = 0, high = list.length) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}
