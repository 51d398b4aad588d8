// Plots: small ones in tables, those over time (uPlot), and the heat map of latencies.
"use strict";
(() => {
  const { html, useEffect, useRef, useMemo } = htmPreact;
  const { store, format } = stretto;
  const SYNC = uPlot.sync("time");

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** A line without axes; gaps where nothing was measured. */
  function Spark({ values, label, tone = "1" }) {
    const width = 96;
    const height = 22;
    const path = useMemo(() => {
      const known = values.filter((value) => !format.absent(value));
      if (known.length < 2) return "";
      const top = Math.max(...known, 1e-9);
      const step = width / Math.max(1, values.length - 1);
      let pen = "M";
      let found = "";
      values.forEach((value, place) => {
        if (format.absent(value)) {
          pen = "M";
          return;
        }
        found += `${pen}${(place * step).toFixed(1)} ${(height - 1 - (value / top) * (height - 3)).toFixed(1)}`;
        pen = "L";
      });
      return found;
    }, [values]);
    return html`<svg class="spark tone-${tone}" viewBox="0 0 ${width} ${height}" role="img" aria-label=${label}>
      <path d=${path} />
    </svg>`;
  }

  function options(title, series, unit, width, height, mark) {
    const ink = css("--ink-soft");
    const grid = { stroke: css("--line"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "11px system-ui, sans-serif" };
    return {
      width,
      height,
      title,
      cursor: { sync: { key: SYNC.key }, y: false },
      legend: { live: true },
      padding: [null, 36, null, null], // Half of a time of day, which may stand at the right end.
      scales: { x: { time: store.clock === "unix" }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { ...axis, size: 30, space: 72, values: (_, at) => at.map((each) => (store.clock === "unix" ? format.moment(each) : `${each} s`)) },
        { ...axis, size: 62, values: (_, at) => at.map((each) => (each === 0 ? "0" : unit(each))) },
      ],
      series: [
        { label: "at", value: (_, at) => (at === null ? "" : format.moment(at)) },
        ...series.map(({ label, tone, dash }) => ({
          label,
          stroke: css(`--tone-${tone}`),
          width: 1.75,
          dash,
          points: { show: false },
          value: (_, value) => (format.absent(value) ? "" : unit(value)),
        })),
      ],
      hooks: { draw: mark === undefined ? [] : [(plot) => drawMark(plot, mark)] },
    };
  }

  function drawMark(plot, time) {
    const x = plot.valToPos(time, "x", true);
    const { ctx, bbox } = plot;
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = css("--ink");
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  /** Lines over time. `series` has a label, a field of `rows` and a tone for each. */
  function Plot({ title, rows, series, unit, height = 170, mark, around }) {
    const box = useRef(null);
    const plot = useRef(null);
    const theme = document.documentElement.dataset.theme ?? "";
    const data = useMemo(() => {
      let keep = rows.t.map((_, place) => place);
      if (around !== undefined) keep = keep.filter((place) => Math.abs(rows.t[place] - around) <= 60);
      return [rows.t, ...series.map(({ field }) => rows[field])].map((column) => keep.map((place) => column[place]));
    }, [rows, around]);
    useEffect(() => {
      const width = () => Math.max(220, box.current.clientWidth);
      plot.current = new uPlot(options(title, series, unit, width(), height, mark), data, box.current);
      const watcher = new ResizeObserver(() => {
        if (plot.current && Math.abs(plot.current.width - width()) > 1) plot.current.setSize({ width: width(), height });
      });
      watcher.observe(box.current);
      return () => {
        watcher.disconnect();
        plot.current.destroy();
        plot.current = null;
      };
    }, [theme, title, mark, series.map(({ field }) => field).join()]);
    useEffect(() => plot.current?.setData(data), [data]);
    return html`<div class="plot" role="img" aria-label=${title} ref=${box}></div>`;
  }

  const CELLS_MAX = 240;

  /** Sums neighbouring rows, so that there is a column of at least two pixels for each. */
  function columns(rows) {
    const each = Math.max(1, Math.ceil(rows.t.length / CELLS_MAX));
    const found = [];
    for (let place = 0; place < rows.t.length; place += each) {
      const part = rows.counts.slice(place, place + each);
      found.push({ t: rows.t[place], counts: part[0].map((_, step) => part.reduce((sum, row) => sum + row[step], 0)) });
    }
    return found;
  }

  function drawHeat(canvas, rows, edges, limit) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    const found = columns(rows);
    const used = found.flatMap(({ counts }) => counts.map((count, step) => (count ? step : -1)));
    const high = Math.max(...used, 4);
    const low = Math.max(0, Math.min(high - 4, ...used.filter((step) => step >= 0)) - 1);
    const left = 70;
    const bottom = 24;
    const top = 12;
    const stepHeight = (height - top - bottom) / (high - low + 1);
    const cellWidth = (width - left - 10) / Math.max(1, found.length);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textAlign = "right";
    ctx.fillStyle = css("--ink-soft");
    const y = (step) => height - bottom - (step - low + 1) * stepHeight;
    const every = Math.max(1, Math.ceil((high - low + 1) / 7));
    for (let step = low; step <= high; step += every) {
      const text = step < edges.length ? format.ms(edges[step]) : "more";
      ctx.fillText(text, left - 6, y(step) + 4);
    }
    const heat = css("--heat").split(",").map(Number);
    found.forEach(({ counts }, place) => {
      const total = counts.reduce((sum, count) => sum + count, 0);
      counts.forEach((count, step) => {
        if (!count || step < low) return;
        // Few results of many are seen too: the root of their share.
        ctx.fillStyle = `rgba(${heat.join(",")},${Math.max(0.12, Math.sqrt(count / total))})`;
        ctx.fillRect(left + place * cellWidth, y(step), Math.max(1, cellWidth - 0.5), stepHeight - 0.5);
      });
    });
    if (found.length) {
      ctx.fillStyle = css("--ink-soft");
      ctx.textAlign = "left";
      ctx.fillText(format.moment(found[0].t), left, height - 8);
      ctx.textAlign = "right";
      ctx.fillText(format.moment(found[found.length - 1].t), width - 10, height - 8);
    }
    if (!format.absent(limit)) {
      const step = Math.log2(limit / edges[0]);
      const at = height - bottom - (step - low + 1) * stepHeight;
      ctx.strokeStyle = css("--tone-3");
      ctx.setLineDash([5, 3]);
      ctx.beginPath();
      ctx.moveTo(left, at);
      ctx.lineTo(width - 10, at);
      ctx.stroke();
    }
  }

  /** How many results had which latency, over time. The dashed line is the objective. */
  function HeatMap({ rows, edges, limit }) {
    const canvas = useRef(null);
    const theme = document.documentElement.dataset.theme ?? "";
    useEffect(() => {
      const draw = () => canvas.current?.clientWidth && drawHeat(canvas.current, rows, edges, limit);
      draw();
      const watcher = new ResizeObserver(draw);
      watcher.observe(canvas.current);
      return () => watcher.disconnect();
    }, [rows, limit, theme]);
    const label = "Latency of results over time, darker where there are more of them";
    return html`<canvas class="heat" role="img" aria-label=${label} ref=${canvas}></canvas>`;
  }

  Object.assign(stretto, { Spark, Plot, HeatMap });
})();
