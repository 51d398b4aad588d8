// The graph of a job: functions as boxes with their pressure, edges with their rates.
"use strict";
(() => {
  const { html, useMemo } = htmPreact;
  const { format } = stretto;
  const WIDTH = 196;
  const HEIGHT = 74;
  const SAYS = { none: "", busy: "busy", victim: "held back", cause: "cause" };

  /** Returns where boxes and edges are. Only the shape of the graph matters, so it is done once. */
  function laidOut(names, edges, upright) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: upright ? "TB" : "LR", nodesep: 22, ranksep: upright ? 44 : 52, marginx: 6, marginy: 6 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const name of names) graph.setNode(name, { width: WIDTH, height: HEIGHT });
    for (const [from, to] of edges) graph.setEdge(from, to);
    dagre.layout(graph);
    const { width, height } = graph.graph();
    return {
      width,
      height,
      nodes: Object.fromEntries(names.map((name) => [name, graph.node(name)])),
      edges: edges.map(([from, to]) => ({ from, to, points: graph.edge(from, to).points })),
    };
  }

  function curve(points) {
    const [first, ...rest] = points;
    let path = `M${first.x} ${first.y}`;
    for (let place = 0; place < rest.length - 1; place += 1) {
      const here = rest[place];
      const next = rest[place + 1];
      path += `Q${here.x} ${here.y} ${(here.x + next.x) / 2} ${(here.y + next.y) / 2}`;
    }
    const last = rest[rest.length - 1];
    return `${path}L${last.x} ${last.y}`;
  }

  const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  function Node({ place, each, chosen, choose }) {
    const cores = each.instances.length || 1;
    const busy = Math.min(1, (each.busy ?? 0) / cores);
    const waits = Math.min(1, each.waits ?? 0);
    const says = SAYS[each.pressure];
    const label =
      `${each.name}: ${says || "no pressure"}, ${format.rate(each.rows_in)} in, ${format.rate(each.rows_out)} out, ` +
      `busy ${format.percent(busy)}, waits for credits ${format.percent(waits)}`;
    const keys = (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(each.name);
      }
    };
    const inner = WIDTH - 24;
    return html`<g
      class="node ${each.pressure} ${chosen ? "chosen" : ""}"
      transform="translate(${place.x - WIDTH / 2} ${place.y - HEIGHT / 2})"
      tabindex="0"
      role="button"
      aria-pressed=${chosen ? "true" : "false"}
      aria-label=${label}
      data-function=${each.name}
      data-pressure=${each.pressure}
      onClick=${() => choose(each.name)}
      onKeyDown=${keys}
    >
      <title>${label}</title>
      <rect class="box" width=${WIDTH} height=${HEIGHT} rx="7" />
      <text class="name" x="12" y="21">${cut(each.name, says ? 16 : 23)}</text>
      ${says && html`<text class="says" x=${WIDTH - 10} y="21">${says}</text>`}
      <text class="rates" x="12" y="42">${format.rate(each.rows_in)} → ${format.rate(each.rows_out)}</text>
      <text class="queue" x=${WIDTH - 10} y="42">${each.queued ? `${format.count(each.queued)} wait` : ""}</text>
      <rect class="track" x="12" y="54" width=${inner} height="7" rx="3.5" />
      <rect class="busy-bar" x="12" y="54" width=${busy * inner} height="7" rx="3.5" />
      <rect class="waits-bar" x=${12 + busy * inner} y="54" width=${Math.min(1 - busy, waits) * inner} height="7" rx="2" />
    </g>`;
  }

  function Graph({ view, chosen, choose, upright }) {
    const names = view.graph.map(({ name }) => name);
    const pairs = view.edges.map(({ from, to }) => [from, to]);
    const shape = JSON.stringify([names, pairs, upright]);
    const layout = useMemo(() => laidOut(names, pairs, upright), [shape]);
    const functions = Object.fromEntries(view.graph.map((each) => [each.name, each]));
    const rates = Object.fromEntries(view.edges.map((edge) => [JSON.stringify([edge.from, edge.to]), edge.sent]));
    const top = Math.max(1, ...view.edges.map(({ sent }) => sent ?? 0));
    return html`<div class="graph">
      <svg width=${layout.width} height=${layout.height} viewBox="0 0 ${layout.width} ${layout.height}">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0L8 4L0 8z" />
          </marker>
        </defs>
        ${layout.edges.map(({ from, to, points }) => {
          const sent = rates[JSON.stringify([from, to])];
          const waits = functions[from].waits_for[to] ?? 0;
          const middle = points[Math.floor(points.length / 2)];
          const thick = 1.2 + 2.6 * Math.sqrt((sent ?? 0) / top);
          return html`<g class="edge ${waits >= 0.1 ? "waits" : ""}">
            <path d=${curve(points)} stroke-width=${thick} marker-end="url(#arrow)" />
            <text x=${middle.x} y=${middle.y - 7}>${format.rate(sent)}</text>
          </g>`;
        })}
        ${view.graph.map(
          (each) => html`<${Node}
            key=${each.name}
            place=${layout.nodes[each.name]}
            each=${each}
            chosen=${chosen === each.name}
            choose=${choose}
          />`,
        )}
      </svg>
    </div>`;
  }

  stretto.Graph = Graph;
})();
