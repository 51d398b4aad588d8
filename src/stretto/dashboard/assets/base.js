// The state of the page, and who hears of its changes. All other scripts share the object `stretto`.
"use strict";
var stretto = (() => {
  const store = {
    title: "",
    clock: "unix", // or "run": times count from the beginning of the run
    live: true,
    connection: "connecting", // "open", "lost", "refused", "ended"
    overview: null,
    views: {}, // one job, by name
    rows: {}, // its figures over time, by name
    recent: {}, // the last rows of each job, for the small plots of the overview
    decisions: new Map(), // by number
    token: null,
  };
  const listeners = new Set();
  let scheduled = false;

  /** Has whoever listens draw again, once for all changes of a moment. */
  function changed() {
    if (scheduled) return;
    scheduled = true;
    const draw = () => {
      scheduled = false;
      listeners.forEach((listener) => listener());
    };
    // A page in the background gets no frames, and still has to be up to date when it is looked at.
    if (document.hidden) setTimeout(draw, 0);
    else requestAnimationFrame(draw);
  }

  const RECENT = 60;

  /** Takes an overview; the first one has the last rows of each job, later ones add a row each. */
  function takeOverview(overview) {
    store.overview = overview;
    if (overview.title) store.title = overview.title;
    for (const job of overview.jobs) {
      if (job.recent) store.recent[job.name] = job.recent;
      const recent = (store.recent[job.name] ??= { t: [], rows_in: [], p99_ms: [] });
      const last = recent.t[recent.t.length - 1];
      if (last === undefined || job.seen_s - last >= 0.9) {
        store.recent[job.name] = {
          t: [...recent.t, job.seen_s].slice(-RECENT),
          rows_in: [...recent.rows_in, job.rows_in].slice(-RECENT),
          p99_ms: [...recent.p99_ms, job.p99_ms].slice(-RECENT),
        };
      }
    }
    const known = new Set(overview.jobs.map((job) => job.name));
    for (const name of Object.keys(store.recent)) if (!known.has(name)) delete store.recent[name];
    changed();
  }

  const KEPT = 1000;

  function joined(before, after) {
    const found = {};
    for (const name of Object.keys(after)) found[name] = [...(before?.[name] ?? []), ...after[name]].slice(-KEPT);
    return found;
  }

  /** Takes a job as it is now, and the rows that it has got since the last time; all of them at first. */
  function takeJob({ view, rows }, isFirst) {
    const before = isFirst ? undefined : store.rows[view.name];
    store.views = { [view.name]: view };
    const functions = {};
    for (const name of Object.keys(rows.functions)) functions[name] = joined(before?.functions[name], rows.functions[name]);
    store.rows = {
      [view.name]: {
        job: joined(before?.job, rows.job),
        latency: joined(before?.latency, rows.latency),
        functions,
        entities: rows.entities && joined(before?.entities, rows.entities),
      },
    };
    changed();
  }

  function takeDecisions(records) {
    for (const record of records) store.decisions.set(record.number, record);
    changed();
  }

  function setConnection(connection) {
    store.connection = connection;
    changed();
  }

  return { store, listeners, changed, takeOverview, takeJob, takeDecisions, setConnection };
})();
