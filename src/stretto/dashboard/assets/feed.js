// Where the data come from: the server, as they change, or what a report has inside.
"use strict";
(() => {
  const { store, takeOverview, takeJob, takeDecisions, setConnection } = stretto;
  const KEY = "stretto-token";
  const RETRY_MS = 1500;
  let job = null;
  let stop = null;

  /** Takes the token out of the address, where a browser keeps it in its history, into this tab alone. */
  function takeToken() {
    const found = /[#&]token=([^&]+)/.exec(location.hash);
    if (found) {
      sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
      history.replaceState(null, "", location.pathname + location.search + "#/");
    }
    store.token = sessionStorage.getItem(KEY);
  }

  function take(event, data, isFirst) {
    if (event === "overview") takeOverview(data);
    else if (event === "job") takeJob(data, isFirst);
    else if (event === "decisions") takeDecisions(data);
    else if (event === "end") setConnection("ended");
  }

  async function read(signal) {
    const query = job === null ? "" : `?job=${encodeURIComponent(job)}`;
    const headers = store.token ? { Authorization: `Bearer ${store.token}` } : {};
    const answer = await fetch(`/api/events${query}`, { headers, signal });
    if (answer.status === 401) {
      setConnection("refused");
      return false;
    }
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    setConnection("open");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let isFirst = true; // A new connection begins with all rows.
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return store.connection !== "ended";
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const lines = /^event: (.*)\ndata: (.*)$/.exec(part);
        if (lines) take(lines[1], JSON.parse(lines[2]), isFirst);
        if (lines?.[1] === "job") isFirst = false;
      }
    }
  }

  async function listen() {
    stop?.abort();
    const mine = (stop = new AbortController());
    while (!mine.signal.aborted) {
      try {
        if (!(await read(mine.signal))) return;
      } catch (error) {
        if (mine.signal.aborted) return;
      }
      setConnection("lost");
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /** Has the rows of this job come too; of none, if it is null. */
  function follow(name) {
    if (name === job && stop) return;
    job = name;
    if (store.live) {
      listen();
    } else if (name !== null && recorded.jobs[name]) {
      takeJob({ view: recorded.jobs[name], rows: recorded.rows[name] }, true);
    }
  }

  /** Returns the figures of a job over time, such as for the plots around a decision; null if they are not kept. */
  async function rowsOf(name) {
    if (!store.live) return recorded.rows[name] ?? null;
    const headers = store.token ? { Authorization: `Bearer ${store.token}` } : {};
    const answer = await fetch(`/api/jobs/${encodeURIComponent(name)}/rows`, { headers });
    return answer.ok ? answer.json() : null;
  }

  let recorded = null;
  const inside = document.getElementById("recorded");
  if (inside) {
    recorded = JSON.parse(inside.textContent);
    store.live = false;
    store.clock = recorded.clock;
    store.title = recorded.title;
    store.connection = "recorded";
    takeOverview(recorded.overview);
    takeDecisions([...recorded.decisions].reverse());
  } else {
    takeToken();
  }
  Object.assign(stretto, { follow, rowsOf });
})();
