// One job: its graph with the cause of congestion, its functions, latencies over time, checkpoints, decisions.
"use strict";
(() => {
  const { html, useState, useEffect } = htmPreact;
  const { store, format, Graph, Plot, HeatMap, Status, Held, Tile, Bar } = stretto;

  /** Whether the window is narrower than this. */
  function useNarrow(width) {
    const [narrow, setNarrow] = useState(innerWidth < width);
    useEffect(() => {
      const look = () => setNarrow(innerWidth < width);
      addEventListener("resize", look);
      return () => removeEventListener("resize", look);
    }, [width]);
    return narrow;
  }

  const owned = (view, { job, function: name }) => (job === view.name ? name : `${name} of job ${job}`);

  function HeldBack({ view }) {
    const said = view.held_back.filter(({ share }) => share > 0.01);
    if (!said.length) return null;
    const parts = said.map((each) => `by ${owned(view, each)} for ${format.percent(each.share)} of the time`);
    return html`<p class="note" data-held-back>Since it began, it was held back ${parts.join(", ")}.</p>`;
  }

  function Causes({ view }) {
    if (!view.causes.length) return null;
    return html`<section class="causes" aria-label="Causes of congestion">
      ${view.causes.map(
        (cause) => html`<p key=${cause.job + cause.function} data-cause=${cause.function}>
          <strong>Cause: ${owned(view, cause)}</strong>
          <span> ${cause.text}.</span>
          ${cause.victims.length > 0 && html`<span class="soft"> Held back: ${cause.victims.join(", ")}.</span>`}
        </p>`,
      )}
    </section>`;
  }

  function Head({ view }) {
    return html`<section class="tiles" aria-label="In short">
      <${Tile} label="objective" value=${html`<${Held} held=${view.held} />`} note=${view.objective?.text ?? "none"} />
      <${Tile}
        label="results in time"
        value=${format.percent(view.in_time_now)}
        note="${format.percent(view.in_time_hour)} in the last hour"
      />
      <${Tile} label="utility" value=${format.number(view.utility)} note="of ${format.number(view.priority)}" />
      ${view.as_of_s === null
        ? html`<${Tile} label="rows read" value=${format.rate(view.rows_in)} note="${format.count(view.rows_total)} so far, source lag ${format.ms(view.behind_ms)}" />`
        : html`<${Tile} label="rows read" value=${format.count(view.rows_total)} note="in all" />`}
      <${Tile} label="results" value=${format.rate(view.results_per_s)} note="${format.count(view.queued)} messages wait" />
      <${Tile} label="latency p99" value=${format.ms(view.p99_ms)} note="p50 ${format.ms(view.p50_ms)}, p95 ${format.ms(view.p95_ms)}" />
    </section>`;
  }

  function Functions({ view, chosen, choose }) {
    return html`<div class="wide">
      <table class="functions">
        <thead>
          <tr>
            <th scope="col">function</th>
            <th scope="col">kind</th>
            <th scope="col" class="number">rows in</th>
            <th scope="col" class="number">rows out</th>
            <th scope="col">busy</th>
            <th scope="col" class="number">no credits</th>
            <th scope="col" class="number">waiting</th>
            <th scope="col" class="number">wait</th>
            <th scope="col" class="number">cost</th>
            <th scope="col" class="number">state</th>
            <th scope="col" class="number">behind</th>
            <th scope="col" class="number">late rows</th>
            <th scope="col">on workers</th>
          </tr>
        </thead>
        <tbody>
          ${view.graph.map(
            (each) => html`<tr key=${each.name} data-function=${each.name} class=${each.pressure}>
              <th scope="row" data-label="function">
                <button type="button" class="plain" aria-pressed=${chosen === each.name ? "true" : "false"} onClick=${() => choose(each.name)}>${each.name}</button>
                ${each.pressure === "cause" && html`<span class="tag cause">cause</span>`}
                ${each.pressure === "victim" && html`<span class="tag victim">held back</span>`}
              </th>
              <td data-label="kind" class="soft">${each.kind === "function" ? each.discipline : each.kind}, ×${each.parallelism}</td>
              <td class="number" data-label="rows in">${format.rate(each.rows_in)}</td>
              <td class="number" data-label="rows out">${format.rate(each.rows_out)}</td>
              <td data-label="busy"><${Bar} share=${each.busy / (each.instances.length || 1)} text=${format.percent(each.busy)} /></td>
              <td class="number" data-label="no credits">${format.percent(each.waits)}</td>
              <td class="number" data-label="waiting">${format.count(each.queued)}</td>
              <td class="number" data-label="wait">${format.ms(each.wait_ms)}</td>
              <td class="number" data-label="cost">${format.ms(each.cost_ms)}</td>
              <td class="number" data-label="state">${format.bytes(each.state_bytes)}</td>
              <td class="number" data-label="behind">${format.seconds(each.lag_s)}</td>
              <td class="number" data-label="late rows">${format.count(each.late)}</td>
              <td data-label="on workers" class="soft">${[...new Set(each.instances.map(({ worker }) => worker))].slice(0, 4).join(", ")}</td>
            </tr>`,
          )}
        </tbody>
      </table>
      <p class="soft small">
        busy: share of a worker's time, more than 100 % on several · no credits: share of the time that it waits for what it feeds · wait: how long
        a message waits, by Little's law · cost: of a message · behind: event time behind the sources
      </p>
    </div>`;
  }

  function Elastic({ elastic }) {
    return html`<div class="wide"><table class="values">
      <thead><tr><th scope="col">partition</th><th scope="col">worker</th><th scope="col" class="number">shards</th><th scope="col" class="number">busy</th></tr></thead>
      <tbody>
        ${elastic.flatMap((each) =>
          each.workers.map(
            (worker) => html`<tr key=${each.partition + worker.name}>
              <td>${each.partition}</td>
              <td>${worker.name}${worker.name === each.home ? " (home)" : ""}</td>
              <td class="number">${worker.shards}</td>
              <td class="number">${format.percent(worker.busy)}</td>
            </tr>`,
          ),
        )}
      </tbody>
    </table></div>`;
  }

  function Chosen({ view, each, rows }) {
    if (!each) return null;
    const counts = Object.entries(each.counts);
    return html`<section class="chosen" aria-label="Function ${each.name}" data-chosen=${each.name}>
      <h2>${each.name}</h2>
      ${each.strategies.map((why) => html`<p key=${why}>Strategy: ${why}</p>`)}
      ${each.away && html`<p>${format.percent(each.away.share)} of its batches go to ${each.away.workers.join(", ")}.</p>`}
      ${each.lessees > 0 && html`<p>Each of its actors may have ${each.lessees} lessees.</p>`}
      ${Object.entries(each.waits_for).map(([name, share]) => html`<p key=${name}>Waits ${format.percent(share)} of the time for credits of ${name}.</p>`)}
      <p class="soft">
        ${each.instances.map(({ partition, worker, busy }) => `${partition} on ${worker} (${format.percent(busy)})`).slice(0, 12).join(" · ")}
        ${each.watermark_s !== null && ` · watermark ${new Date(each.watermark_s * 1000).toISOString().replace("T", " ").slice(0, 19)}`}
        ${counts.length > 0 && ` · ${counts.map(([name, value]) => `${format.words(name)} ${format.count(value)}`).join(", ")}`}
      </p>
      ${each.elastic.length > 0 && html`<${Elastic} elastic=${each.elastic} />`}
      ${rows &&
      html`<div class="plots">
        <${Plot} key=${`${each.name}-rate`} title="rows per second" rows=${rows} unit=${format.rate} series=${[
          { label: "in", field: "rows_in", tone: 1 },
          { label: "out", field: "rows_out", tone: 2, dash: [6, 3] },
        ]} />
        <${Plot} key=${`${each.name}-busy`} title="busy, and without credits" rows=${rows} unit=${format.percent} series=${[
          { label: "busy", field: "busy", tone: 1 },
          { label: "no credits", field: "waits", tone: 3, dash: [6, 3] },
        ]} />
        <${Plot} key=${`${each.name}-queue`} title="messages that wait" rows=${rows} unit=${format.count} series=${[{ label: "waiting", field: "queued", tone: 1 }]} />
      </div>`}
      ${store.live && html`<${stretto.FunctionControls} key=${each.name} job=${view.name} each=${each} />`}
    </section>`;
  }

  function Checkpoints({ checkpoints }) {
    if (!checkpoints) return html`<p class="empty">This job has no checkpoints.</p>`;
    const last = checkpoints.ended.find((each) => each.failed_because === null);
    const every = checkpoints.interval_s === null ? "only when asked for" : `every ${format.seconds(checkpoints.interval_s)}`;
    return html`<p>
        ${every}${last ? `; the last complete one is ${last.number}, of ${format.moment(last.time_s)}` : "; none is complete yet"}
        ${checkpoints.underway_since_s !== null && `; one is under way since ${format.moment(checkpoints.underway_since_s)}`}
      </p>
      <div class="wide"><table class="checkpoints">
        <thead><tr><th scope="col">checkpoint</th><th scope="col">at</th><th scope="col" class="number">took</th><th scope="col" class="number">size</th><th scope="col" class="number">new</th><th scope="col">outcome</th></tr></thead>
        <tbody>
          ${checkpoints.ended.slice(0, 12).map(
            (each) => html`<tr key=${each.number + String(each.time_s)}>
              <th scope="row" data-label="checkpoint">${each.number}</th>
              <td data-label="at">${format.moment(each.time_s)}</td>
              <td class="number" data-label="took">${each.failed_because === null ? format.ms(each.took_ms) : format.NONE}</td>
              <td class="number" data-label="size">${each.failed_because === null ? format.bytes(each.bytes) : format.NONE}</td>
              <td class="number" data-label="new">${each.failed_because === null ? format.bytes(each.bytes_written) : format.NONE}</td>
              <td data-label="outcome" class=${each.failed_because === null ? "" : "bad"}>${each.failed_because === null ? "complete" : each.failed_because}</td>
            </tr>`,
          )}
        </tbody>
      </table></div>`;
  }

  const LATENCIES = [
    { label: "p50", field: "p50_ms", tone: 2 },
    { label: "p95", field: "p95_ms", tone: 1, dash: [6, 3] },
    { label: "p99", field: "p99_ms", tone: 3 },
  ];

  /** What the functions of a job do. */
  function Streams({ view, rows, chosen, choose, narrow }) {
    const each = view.graph.find((other) => other.name === chosen);
    return html`<${Causes} view=${view} />
      <${HeldBack} view=${view} />
      <${Head} view=${view} />
      <h2>Functions</h2>
      <${Graph} view=${view} chosen=${chosen} choose=${choose} upright=${narrow} />
      <${Functions} view=${view} chosen=${chosen} choose=${choose} />
      <${Chosen} view=${view} each=${each} rows=${rows.functions[chosen]} />
      <h2>Latency</h2>
      <${HeatMap} rows=${rows.latency} edges=${view.latency_edges_ms} limit=${view.objective?.latency_ms} />
      <div class="plots">
        <${Plot} title="latency of results" rows=${rows.job} unit=${format.ms} series=${LATENCIES} />
        <${Plot} title="rows per second" rows=${rows.job} unit=${format.rate} series=${[
          { label: "read", field: "rows_in", tone: 1 },
          { label: "results", field: "results_per_s", tone: 2, dash: [6, 3] },
        ]} />
        <${Plot} title="messages that wait" rows=${rows.job} unit=${format.count} series=${[{ label: "waiting", field: "queued", tone: 1 }]} />
        <${Plot} title="source lag" rows=${rows.job} unit=${format.ms} series=${[{ label: "behind", field: "behind_ms", tone: 3 }]} />
      </div>
      <h2>Checkpoints</h2>
      <${Checkpoints} checkpoints=${view.checkpoints} />`;
  }

  function Job({ name }) {
    const view = store.views[name];
    const rows = store.rows[name];
    const [chosen, setChosen] = useState(null);
    const narrow = useNarrow(700);
    if (!view || !rows) {
      const known = store.overview.jobs.some((job) => job.name === name);
      return html`<main><p class="empty">${known ? "Loading this job." : `There is no job ${name}.`}</p></main>`;
    }
    const cause = view.graph.find(({ pressure }) => pressure === "cause");
    const shown = chosen ?? cause?.name ?? view.graph[0]?.name;
    const decisions = [...store.decisions.values()].filter((record) => record.job === name).reverse();
    return html`<main data-view=${name}>
      <div class="title"><h1>${name}</h1><${Status} status=${view.status} /></div>
      ${view.error && html`<p class="error" role="alert">${view.error}</p>`}
      ${view.waits_for && html`<p class="note">${view.waits_for}</p>`}
      ${view.as_of_s !== null && view.graph.length > 0 && html`<p class="note">It has ended. Its graph and functions are those of its busiest moment, ${format.moment(view.as_of_s)}.</p>`}
      ${view.graph.length > 0 && html`<${Streams} view=${view} rows=${rows} chosen=${shown} choose=${setChosen} narrow=${narrow} />`}
      <${stretto.Entities} entities=${view.entities} rows=${rows.entities} />
      <h2>Decisions about this job</h2>
      <${stretto.DecisionList} records=${decisions} />
      ${store.live && html`<${stretto.JobControls} view=${view} />`}
    </main>`;
  }

  stretto.Job = Job;
})();
