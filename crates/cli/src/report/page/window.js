// The window of time that the charts show, and the moment that is marked in it.
const LEFT = 96, RIGHT = 14;

const timeWindow = {
  begin: 0,
  end: Math.max(1, record.end),
  marked: 0,
  listeners: [],

  /** Calls `draw` when the window moves, `mark` when another moment is marked. */
  listen(draw, mark) { this.listeners.push({ draw, mark }); },

  show(begin, end) {
    const whole = Math.max(1, record.end);
    const length = Math.min(whole, Math.max(end - begin, 50));
    this.begin = Math.max(0, Math.min(begin, whole - length));
    this.end = this.begin + length;
    this.redraw();
  },

  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.listeners.forEach(({ draw }) => draw());
      this.listeners.forEach(({ mark }) => mark());
    });
  },

  mark(time) {
    this.marked = Math.max(0, Math.min(time, record.end));
    this.listeners.forEach(({ mark }) => mark());
  },

  /** Marks a moment and moves the window if it is outside. */
  goTo(time) {
    this.marked = Math.max(0, Math.min(time, record.end));
    if (time < this.begin || time > this.end) {
      const half = (this.end - this.begin) / 2;
      this.show(time - half, time + half);
    } else this.mark(time);
  },

  zoom(factor, around = (this.begin + this.end) / 2) {
    this.show(around - (around - this.begin) * factor, around + (this.end - around) * factor);
  },

  pan(share) {
    const by = (this.end - this.begin) * share;
    this.show(this.begin + by, this.end + by);
  },
};

/** Times to places on a chart of a width, and back. */
function timeScale(width) {
  const { begin, end } = timeWindow;
  const inner = width - LEFT - RIGHT;
  return {
    inner,
    x: time => LEFT + (time - begin) / (end - begin) * inner,
    time: x => begin + (x - LEFT) / inner * (end - begin),
  };
}

function drawTimeAxis(draw, width, height) {
  const scale = timeScale(width);
  draw.fillStyle = cssColour("--soft");
  draw.strokeStyle = cssColour("--grid");
  draw.textAlign = "center";
  for (const time of ticks(timeWindow.begin, timeWindow.end, scale.inner / 110, false)) {
    const x = Math.round(scale.x(time)) + 0.5;
    draw.beginPath();
    draw.moveTo(x, 0);
    draw.lineTo(x, height - 18);
    draw.stroke();
    draw.fillText(formatTime(time, 9), Math.min(Math.max(x, LEFT + 18), width - 30), height - 5);
  }
}

function drawMark(draw, width, height) {
  const scale = timeScale(width);
  const x = Math.round(scale.x(timeWindow.marked)) + 0.5;
  if (x < LEFT - 1 || x > width - RIGHT + 1) return;
  draw.strokeStyle = cssColour("--accent");
  draw.setLineDash([4, 3]);
  draw.beginPath();
  draw.moveTo(x, 0);
  draw.lineTo(x, height - 18);
  draw.stroke();
  draw.setLineDash([]);
}

/** Lets a chart be zoomed by dragging and by the wheel; a click marks a moment. */
function makeZoomable(chart, over, clicked) {
  let from = null;
  const at = event => event.clientX - chart.getBoundingClientRect().left;
  chart.addEventListener("pointerdown", event => {
    if (event.button === 0) { from = at(event); chart.setPointerCapture(event.pointerId); }
  });
  chart.addEventListener("pointermove", event => {
    if (from === null || Math.abs(at(event) - from) < 4) return;
    hideTip();
    const width = chart.clientWidth, height = chart.clientHeight;
    const draw = prepare(over, width, height);
    draw.fillStyle = cssColour("--accent");
    draw.globalAlpha = 0.16;
    draw.fillRect(Math.min(from, at(event)), 0, Math.abs(at(event) - from), height);
    draw.globalAlpha = 1;
  });
  chart.addEventListener("pointerup", event => {
    if (from === null) return;
    const scale = timeScale(chart.clientWidth);
    const times = [scale.time(from), scale.time(at(event))].sort((a, b) => a - b);
    const isDrag = Math.abs(at(event) - from) >= 4;
    from = null;
    if (isDrag) timeWindow.show(...times); else { timeWindow.mark(times[0]); clicked(event); }
  });
  chart.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && document.activeElement !== chart) return;
    event.preventDefault();
    if (event.shiftKey) timeWindow.pan(Math.sign(event.deltaY || event.deltaX) * 0.15);
    else timeWindow.zoom(event.deltaY > 0 ? 1.25 : 0.8, timeScale(chart.clientWidth).time(at(event)));
  }, { passive: false });
}
