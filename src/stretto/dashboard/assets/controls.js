// What may be changed from here. Everything is asked twice, and sent with the token.
"use strict";
(() => {
  const { html, useState, useRef, useEffect } = htmPreact;
  const { store, format } = stretto;

  async function send(action) {
    const answer = await fetch("/api/control", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${store.token}` },
      body: JSON.stringify(action),
    });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error.text);
    return found.done;
  }

  /** A button that asks once more before it does what it says. */
  function Control({ label, question, action, danger, disabled }) {
    const [said, setSaid] = useState("");
    const [sending, setSending] = useState(false);
    const dialog = useRef(null);
    const [asked, setAsked] = useState(false);
    useEffect(() => {
      if (asked) dialog.current?.showModal();
    }, [asked]);
    const close = () => {
      dialog.current?.close();
      setAsked(false);
    };
    const confirm = async () => {
      close();
      setSending(true);
      setSaid("");
      try {
        setSaid(await send(action));
      } catch (error) {
        setSaid(`not done: ${error.message}`);
      } finally {
        setSending(false);
      }
    };
    return html`<span class="control">
      <button type="button" class=${danger ? "danger" : ""} disabled=${sending || disabled} onClick=${() => setAsked(true)}>${sending ? "…" : label}</button>
      ${asked &&
      html`<dialog ref=${dialog} onCancel=${() => setAsked(false)} aria-label=${label}>
        <p>${question}</p>
        <menu>
          <button type="button" onClick=${close}>No</button>
          <button type="button" class="confirm ${danger ? "danger" : ""}" onClick=${confirm}>Yes, ${label.toLowerCase()}</button>
        </menu>
      </dialog>`}
      <span role="status" class=${said.startsWith("not done") ? "bad" : ""}>${said}</span>
    </span>`;
  }

  const Locked = () => html`<p class="soft">Open the page by the address that was printed, with its token, to change anything.</p>`;

  function Section({ children }) {
    return html`<section class="controls" aria-label="Controls"><h2>Controls</h2>${store.token ? children : html`<${Locked} />`}</section>`;
  }

  function Amount({ label, value, set, min = 1, max = 64 }) {
    return html`<label>${label} <input type="number" min=${min} max=${max} value=${value} onInput=${(event) => set(Number(event.target.value) || min)} /></label>`;
  }

  function ClusterControls() {
    const [count, setCount] = useState(1);
    const some = `${count} worker${count === 1 ? "" : "s"}`;
    return html`<${Section}>
      <${Amount} label="workers" value=${count} set=${setCount} />
      <${Control} label="Add" question="Add ${some}? Each takes a slot of Spark." action=${{ action: "add_workers", count }} />
      <${Control} label="Have leave" danger question="Have ${some} leave? What is there moves to others first." action=${{ action: "remove_workers", count }} />
    <//>`;
  }

  /** What a job is to promise from now on. Fields that are empty promise nothing. */
  function ObjectiveControls({ view, over }) {
    const before = view.objective;
    const [latency, setLatency] = useState(before?.latency_ms ?? "");
    const [percentile, setPercentile] = useState(before?.percentile ?? 99);
    const [throughput, setThroughput] = useState(before?.juice ?? "");
    const [priority, setPriority] = useState(before?.priority ?? 1);
    const number = (text) => (String(text).trim() === "" ? null : Number(text));
    const action = { action: "objective", job: view.name, latency_ms: number(latency), percentile: number(percentile), throughput: number(throughput), priority: number(priority) };
    const promised = [
      action.latency_ms !== null && `${action.latency_ms} ms for ${action.percentile} % of results`,
      action.throughput !== null && `${format.percent(action.throughput)} of the input processed`,
    ].filter(Boolean);
    const question = `Have ${view.name} promise ${promised.join(", ") || "nothing"}, with priority ${action.priority}? Before: ${before?.text ?? "nothing"}.`;
    const field = (label, value, set, more) => html`<label>${label} <input type="number" value=${value} onInput=${(event) => set(event.target.value)} ...${more} /></label>`;
    return html`<fieldset class="controls" aria-label="Objective">
      <legend>Objective</legend>
      ${field("latency in ms", latency, setLatency, { min: 0, step: "any", placeholder: "none" })}
      ${field("percentile", percentile, setPercentile, { min: 0, max: 100, step: "any" })}
      ${field("share of input", throughput, setThroughput, { min: 0, max: 1, step: "any", placeholder: "none" })}
      ${field("priority", priority, setPriority, { min: 0, step: "any" })}
      <${Control} label="Change objective" disabled=${over || action.percentile === null || action.priority === null} question=${question} action=${action} />
    </fieldset>`;
  }

  const ENDED = ["finished", "failed", "stopped", "stopping"];

  function JobControls({ view }) {
    const [name, setName] = useState("by-hand");
    const over = ENDED.includes(view.status);
    const job = view.name;
    return html`<${Section}>
      <${Control} label="Drain and stop" disabled=${over} question="Stop the sources of ${job}, and end it when all rows are processed?" action=${{ action: "stop", job, drain: true }} />
      <${Control} label="Stop now" danger disabled=${over} question="Stop ${job} at once? Rows on their way are lost unless it has checkpoints." action=${{ action: "stop", job }} />
      ${view.checkpoints &&
      html`<${Control} label="Take checkpoint" disabled=${over} question="Take a checkpoint of ${job} now?" action=${{ action: "checkpoint", job }} />
        <label>savepoint <input value=${name} onInput=${(event) => setName(event.target.value)} /></label>
        <${Control} label="Savepoint and stop" danger disabled=${over || !name} question="Take the savepoint ${name} and end ${job}?" action=${{ action: "savepoint", job, name }} />`}
      ${view.graph.length > 0 && html`<${ObjectiveControls} view=${view} over=${over} />`}
    <//>`;
  }

  function FunctionControls({ job, each }) {
    const [parallelism, setParallelism] = useState(each.parallelism);
    if (!store.token) return null;
    return html`<p class="controls">
      <${Amount} label="partitions" value=${parallelism} set=${setParallelism} max=${4096} />
      <${Control} label="Rescale" disabled=${parallelism === each.parallelism} question="Give ${each.name} ${parallelism} partitions instead of ${each.parallelism}? There is a short gap." action=${{ action: "rescale", job, function: each.name, parallelism }} />
    </p>`;
  }

  Object.assign(stretto, { ClusterControls, JobControls, FunctionControls });
})();
