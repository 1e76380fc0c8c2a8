// A map of the addresses of a place at the marked moment: a bar for each piece that was taken from it, cut into what is live, what
// was freed and cannot be reused yet, what is rounding, and what is free. Pieces that nobody divided share bars.
const ROW = 20, GAP = 4;

/** Pools begin blocks at multiples of this: what lies between is nobody's. */
const GRANULE = 512;

const mapChart = {
  box: document.getElementById("map"),
  rects: [],

  /** The pieces at the moment, each with the blocks in it. Freed blocks count until their bytes can be reused. */
  pieces() {
    const { marked } = timeWindow;
    const { device, class: kind, parent, made, freed, reusable, address, divided } = Object.fromEntries(
      ["device", "class", "parent", "made", "freed", "reusable", "address", "divided"].map(name => [name, column[`block.${name}`]]));
    const isThere = block => made[block] <= marked && (freed[block] > marked || reusable[block] > marked);
    const outer = [], inside = new Map();
    for (const block of memoryChart.history.blocks) {
      if (!isThere(block) || device[block] !== currentPlace().device) continue;
      if (kind[block] === 0) outer.push(block);
      else if (parent[block] >= 0) inside.set(parent[block], [...(inside.get(parent[block]) ?? []), block]);
    }
    outer.sort((a, b) => address[a] - address[b]);
    const pieces = [];
    let shared = null;
    for (const block of outer) {
      if (divided[block]) { pieces.push({ block, blocks: inside.get(block) ?? [] }); shared = null; }
      else if (shared) shared.blocks.push(block);
      else { shared = { block: -1, blocks: [block] }; pieces.push(shared); }
    }
    return pieces;
  },

  draw() {
    const width = this.box.clientWidth;
    const bytes = column["block.bytes"], address = column["block.address"], freed = column["block.freed"];
    const { marked } = timeWindow;
    this.rects = [];
    const pieces = this.pieces();
    const sizeOf = piece => piece.block >= 0 ? bytes[piece.block] : piece.blocks.reduce((sum, block) => sum + bytes[block], 0);
    // The free end of a piece is cut off where it would leave no room for what is in use.
    const usedOf = piece => piece.block < 0 ? sizeOf(piece) : piece.blocks.reduce((end, block) => Math.max(end, address[block] + bytes[block] - address[piece.block]), 0);
    const longest = pieces.reduce((most, piece) => Math.max(most, sizeOf(piece)), 1), used = pieces.reduce((most, piece) => Math.max(most, usedOf(piece)), 1);
    const largest = used * 4 < longest ? used * 1.25 : longest;
    const inner = width - LEFT - RIGHT, rows = Math.min(pieces.length, 40);
    const height = Math.max(40, rows * (ROW + GAP) + 16 + (pieces.length > rows ? 18 : 0));
    this.box.style.height = `${height}px`;
    const draw = prepare(this.box.children[0], width, height);
    if (pieces.length === 0) {
      draw.fillStyle = cssColour("--soft");
      draw.fillText("nothing is taken at this moment", LEFT, 24);
    }
    pieces.slice(0, rows).forEach((piece, row) => {
      const y = 10 + row * (ROW + GAP), scale = inner / largest, size = sizeOf(piece);
      draw.fillStyle = cssColour("--soft");
      draw.textAlign = "right";
      draw.fillText(formatBytes(size), LEFT - 8, y + ROW / 2 + 4);
      draw.fillStyle = cssColour(piece.block >= 0 && freed[piece.block] <= marked ? "--waiting" : "--free");
      const isCut = size > largest;
      draw.fillRect(LEFT, y, Math.max(1, Math.min(size, largest) * scale), ROW);
      if (isCut) {
        draw.fillStyle = cssColour("--soft");
        draw.textAlign = "right";
        draw.fillText(`… ${formatBytes(size - usedOf(piece))} free`, width - RIGHT - 8, y + ROW / 2 + 4);
      }
      let at = 0;
      const sorted = [...piece.blocks].sort((a, b) => address[a] - address[b] || freed[a] - freed[b]);
      sorted.forEach((block, index) => {
        const offset = piece.block >= 0 ? address[block] - address[piece.block] : at;
        at += bytes[block];
        const rect = { x: LEFT + offset * scale, y, w: Math.max(0.7, bytes[block] * scale), h: ROW, block };
        const isLive = freed[block] > marked;
        draw.fillStyle = isLive ? blockColour(block) : cssColour("--waiting");
        draw.fillRect(rect.x, y, rect.w, ROW);
        if (rect.w > 3) {
          draw.strokeStyle = cssPaper;
          draw.strokeRect(rect.x + 0.25, y + 0.25, rect.w - 0.5, ROW - 0.5);
        }
        this.rects.push(rect);
        const end = address[block] + bytes[block], next = sorted[index + 1];
        const rounded = Math.min(Math.ceil(end / GRANULE) * GRANULE, next === undefined ? Infinity : address[next], address[piece.block] + size);
        if (piece.block >= 0 && rounded > end) {
          draw.fillStyle = cssColour("--rounding");
          draw.fillRect(rect.x + rect.w, y, (rounded - end) * scale, ROW);
        }
      });
      if (piece.block >= 0) this.rects.push({ x: LEFT, y, w: Math.min(size, largest) * scale, h: ROW, block: piece.block });
    });
    if (pieces.length > rows) {
      draw.fillStyle = cssColour("--soft");
      draw.textAlign = "left";
      draw.fillText(`${formatCount(pieces.length - rows)} more pieces`, LEFT, height - 8);
    }
    document.getElementById("map-time").textContent = `at ${formatTime(marked)}`;
  },

  mark() { this.draw(); },

  find(event) {
    const box = this.box.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const hit = this.rects.find(rect => x >= rect.x && x <= rect.x + Math.max(rect.w, 2) && y >= rect.y && y <= rect.y + rect.h);
    return hit ? hit.block : null;
  },
};
