// The overview: every job with its objective, every worker with its load.
"use strict";
(() => {
  const { html, useState } = htmPreact;
  const { store, format, drawnIfSeen, Spark, Status, Held, Bar, Tile, jobLink } = stretto;

  const ORDERS = {
    name: (job) => job.name,
    status: (job) => job.status,
    held: (job) => (job.held === false ? 0 : job.held === null ? 1 : 2),
    utility: (job) => (job.utility ?? 1) / (job.priority || 1),
    rows_in: (job) => -(job.rows_in ?? 0),
    p99_ms: (job) => -(job.p99_ms ?? -1),
    queued: (job) => -(job.queued ?? 0),
  };

  function sorted(jobs, by) {
    const key = ORDERS[by];
    return [...jobs].sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      return left < right ? -1 : left > right ? 1 : a.name < b.name ? -1 : 1;
    });
  }

  const ended = (job) => ["finished", "failed", "stopped"].includes(job.status);

  function Tiles({ overview }) {
    const { jobs, workers } = overview;
    const running = jobs.filter((job) => !ended(job));
    const promised = running.filter((job) => job.held !== null);
    const held = promised.filter((job) => job.held).length;
    const present = workers.filter(({ state, role }) => state !== "gone" && role !== "driver");
    const busy = present.reduce((sum, worker) => sum + (worker.busy ?? 0), 0);
    const causes = running.filter((job) => job.causes.length);
    return html`<section class="tiles" aria-label="In short">
      <${Tile} label="jobs" value=${jobs.length} note="${running.length} running" />
      <${Tile}
        label="objectives held"
        value=${promised.length ? `${held} of ${promised.length}` : format.NONE}
        note=${held < promised.length ? `${promised.length - held} missed` : "of running jobs"}
      />
      <${Tile} label="rows read" value=${format.rate(running.reduce((sum, job) => sum + (job.rows_in ?? 0), 0))} note="${format.count(jobs.reduce((sum, job) => sum + job.rows_total, 0))} in all" />
      <${Tile}
        label="workers busy"
        value="${format.number(Number(busy.toFixed(2)))} of ${present.length}"
        note=${present.some(({ state }) => state === "leaving") ? "some are leaving" : ""}
      />
      <${Tile} label="congested jobs" value=${causes.length} note=${causes.map(({ name }) => name).slice(0, 3).join(", ")} />
      <${Tile} label="decisions" value=${store.decisions.size} />
    </section>`;
  }

  const Heading = ({ by, order, setOrder, children, number }) => html`<th
    scope="col"
    class=${number ? "number" : ""}
    aria-sort=${order === by ? "ascending" : "none"}
  >
    <button type="button" class="plain" onClick=${() => setOrder(by)}>${children}${order === by ? " ↓" : ""}</button>
  </th>`;

  const JobRow = drawnIfSeen(({ job }) => {
    const recent = store.recent[job.name] ?? { rows_in: [], p99_ms: [] };
    const cause = job.causes[0];
    const said = job.error ?? job.waits_for ?? (cause ? `${cause.function} is the cause` : "");
    return html`<tr data-job=${job.name} class=${ended(job) ? "ended" : ""}>
      <th scope="row" data-label="job">
        <a href=${jobLink(job.name)}>${job.name}</a>
        ${!format.absent(job.transactions_per_s) && html`<div class="said soft" data-transactions>${format.count(Math.round(job.transactions_per_s))} transactions/s</div>`}
        ${said && html`<div class="said ${job.error ? "bad" : "warn"}" title=${said}>${said}</div>`}
      </th>
      <td data-label="status"><${Status} status=${job.status} /></td>
      <td data-label="objective"><${Held} held=${job.held} /><span class="soft">${job.objective?.latency_ms ? ` p${job.objective.percentile} ≤ ${format.ms(job.objective.latency_ms)}` : ""}</span></td>
      <td class="number" data-label="in time" title="share of results in time">${format.percent(job.in_time_now)}</td>
      <td class="number" data-label="in an hour" title="share of results in time, of the hour that is kept">${format.percent(job.in_time_hour)}</td>
      <td class="number" data-label="utility">${format.number(job.utility)}</td>
      <td class="number" data-label="rows read">${format.rate(job.rows_in)}</td>
      <td class="plotted"><${Spark} values=${recent.rows_in} label="rows read in the last minute" /></td>
      <td class="number" data-label="p50">${format.ms(job.p50_ms)}</td>
      <td class="number" data-label="p95">${format.ms(job.p95_ms)}</td>
      <td class="number" data-label="p99">${format.ms(job.p99_ms)}</td>
      <td class="plotted"><${Spark} values=${recent.p99_ms} label="p99 in the last minute" tone="2" /></td>
      <td class="number" data-label="waiting">${format.count(job.queued)}</td>
    </tr>`;
  });

  function Jobs({ jobs }) {
    const [order, setOrder] = useState("name");
    const heading = { order, setOrder };
    if (!jobs.length) return html`<p class="empty">No job has been submitted yet.</p>`;
    return html`<div class="wide">
      <table class="jobs">
        <thead>
          <tr>
            <${Heading} by="name" ...${heading}>job<//>
            <${Heading} by="status" ...${heading}>status<//>
            <${Heading} by="held" ...${heading}>objective<//>
            <th scope="col" class="number">in time<br />now</th>
            <th scope="col" class="number">in time<br />hour</th>
            <${Heading} by="utility" number ...${heading}>utility<//>
            <${Heading} by="rows_in" number ...${heading}>rows read<//>
            <th scope="col"><span class="hidden">rows read over the last minute</span></th>
            <th scope="col" class="number">p50</th>
            <th scope="col" class="number">p95</th>
            <${Heading} by="p99_ms" number ...${heading}>p99<//>
            <th scope="col"><span class="hidden">p99 over the last minute</span></th>
            <${Heading} by="queued" number ...${heading}>waiting<//>
          </tr>
        </thead>
        <tbody>
          ${sorted(jobs, order).map((job) => html`<${JobRow} key=${job.name} job=${job} />`)}
        </tbody>
      </table>
    </div>`;
  }

  const WorkerRow = drawnIfSeen(({ worker }) =>
    html`<tr data-worker=${worker.name} class=${worker.state === "gone" ? "ended" : ""}>
              <th scope="row" data-label="worker">${worker.name}</th>
              <td data-label="role">${worker.role}</td>
              <td data-label="state">${worker.state}</td>
              <td data-label="busy">
                <${Bar} share=${(worker.busy ?? 0) / (worker.cores || 1)} text=${format.percent((worker.busy ?? 0) / (worker.cores || 1))} />
              </td>
              <td class="number" data-label="memory">${format.bytes(worker.memory_bytes)}</td>
              <td class="number" data-label="waiting">${format.count(worker.queued)}</td>
              <td class="number" data-label="refused">${format.count(worker.refused)}</td>
              <td data-label="host">${worker.host}</td>
              <td class="number" data-label="process">${worker.pid}</td>
              <td data-label="jobs" class="soft">${worker.jobs.slice(0, 6).join(", ")}${worker.jobs.length > 6 ? ` and ${worker.jobs.length - 6} more` : ""}</td>
            </tr>`,
  );

  function Workers({ workers }) {
    return html`<div class="wide">
      <table class="workers">
        <thead>
          <tr>
            <th scope="col">worker</th>
            <th scope="col">role</th>
            <th scope="col">state</th>
            <th scope="col">busy</th>
            <th scope="col" class="number">memory</th>
            <th scope="col" class="number">waiting</th>
            <th scope="col" class="number">refused</th>
            <th scope="col">host</th>
            <th scope="col" class="number">process</th>
            <th scope="col">jobs</th>
          </tr>
        </thead>
        <tbody>
          ${workers.map(
            (worker) => html`<${WorkerRow} key=${worker.name} worker=${worker} />`,
          )}
        </tbody>
      </table>
    </div>`;
  }

  function Overview() {
    const { overview } = store;
    return html`<main>
      <${Tiles} overview=${overview} />
      <h2>Jobs</h2>
      <${Jobs} jobs=${overview.jobs} />
      <h2>Workers</h2>
      <${Workers} workers=${overview.workers} />
      ${store.live && html`<${stretto.ClusterControls} />`}
    </main>`;
  }

  stretto.Overview = Overview;
})();
