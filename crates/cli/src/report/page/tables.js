// The figures of the summary as tables.
const MOST_ROWS = 12;

function fillTables() {
  const { summary } = facts, box = document.getElementById("tables");
  const put = (title, heading, rows) => {
    if (rows.length === 0) return;
    const shown = rows.slice(0, MOST_ROWS), table = element("table", {}, element("tr", {}, ...heading.map(cell => element("th", {}, cell))));
    const add = list => list.forEach(row => table.append(element("tr", {}, ...row.map(cell => element("td", {}, cell)))));
    add(shown);
    const card = element("div", { class: "table" }, element("h3", {}, title), table);
    if (rows.length > shown.length) {
      const more = element("button", { onclick: () => { add(rows.slice(MOST_ROWS)); more.remove(); } }, `${rows.length - shown.length} more`);
      card.append(more);
    }
    box.append(card);
  };
  const shares = (title, list) => put(title, ["", "bytes", "blocks"], list.map(({ name, bytes, blocks }) => [name, formatBytes(bytes), formatCount(blocks)]));
  for (const place of summary.memory.filter(place => place.peak.bytes > 0)) {
    const name = place.device === null ? "Host memory" : `Device ${place.device}`;
    shares(`${name} when most was taken, by purpose`, place.peak.of.purposes);
    shares(`${name} when most was taken, by graph and operator`, place.peak.of.owners);
    shares(`${name} when most was taken, by call`, place.peak.of.sites);
    if (place.live_at_end.bytes > 0) shares(`${name}, live at the end`, place.live_at_end.of.sites);
  }
  put("Reserved over live", ["pool", "reserved at most", "in blocks at most", "ratio"], summary.pools.map(pool => [
    pool.object ? `user allocator ${pool.object}` : `pool ${pool.pool} of device ${pool.device}`,
    formatBytes(pool.peak_reserved), formatBytes(pool.peak_live), pool.peak_live ? (pool.peak_reserved / pool.peak_live).toFixed(2) : "–"]));
  const tasks = [...summary.tasks].sort((a, b) => b.run.total_ns - a.run.total_ns);
  put("Tasks", ["name", "submitted", "failed", "ran for", "longest"], tasks.map(task => [task.name, formatCount(task.submitted), String(task.failed + task.dropped), formatTime(task.run.total_ns), formatTime(task.run.longest_ns)]));
  put("Communicators", ["name", "rank", "operators", "bytes", "time inside"], summary.communicators.map(row => [row.name, `${row.rank} of ${row.size}`, formatCount(row.operators), formatBytes(row.bytes), formatTime(row.inside_ns)]));
  put("Waiting", ["call", "times", "total", "longest"], summary.waits.map(wait => [`${wait.site} for a ${wait.for}`, formatCount(wait.time.count), formatTime(wait.time.total_ns), formatTime(wait.time.longest_ns)]));
  put("Callbacks of user allocators", ["function", "times", "total", "longest"], summary.callbacks.map(call => [`${call.function} of ${call.object}`, formatCount(call.time.count), formatTime(call.time.total_ns), formatTime(call.time.longest_ns)]));
  put("Allocations", ["memory", "allocations", "frees", "bytes"], summary.traffic.map(row => [row.memory, formatCount(row.allocations), formatCount(row.frees), formatBytes(row.bytes)]));
  put("Counts", ["", ""], Object.entries(summary.counts).map(([name, count]) => [name, formatCount(count)]));
}
