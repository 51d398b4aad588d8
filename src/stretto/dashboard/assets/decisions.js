// Decisions: what was decided when, what triggered it, what was seen, what else was possible, what it brought.
"use strict";
(() => {
  const { html, useState, useEffect } = htmPreact;
  const { store, format, Values, Plot, jobLink } = stretto;
  const OUTCOMES = { pending: "wait", done: "good", refused: "warn", failed: "bad", nothing: "done" };

  function Candidates({ candidates }) {
    if (!candidates.length) return html`<p class="soft">No alternatives were recorded.</p>`;
    return html`<div class="wide"><table class="candidates">
      <thead><tr><th scope="col">candidate</th><th scope="col">predicted</th><th scope="col">why not</th></tr></thead>
      <tbody>
        ${candidates.map(
          (each, place) => html`<tr key=${place} class=${each.lost_because === null ? "won" : ""}>
            <th scope="row" data-label="candidate">${each.what}</th>
            <td data-label="predicted">${Object.entries(each.predicted).map(([name, value]) => `${format.words(name)} ${format.number(value)}`).join(", ") || format.NONE}</td>
            <td data-label="why not">${each.lost_because === null ? html`<strong>chosen</strong>` : each.lost_because}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>`;
  }

  /** The plots of the job around the moment of a decision, where they are kept. */
  function Around({ record }) {
    const [rows, setRows] = useState(null);
    useEffect(() => {
      let wanted = true;
      const found = record.job ? stretto.rowsOf(record.job) : Promise.resolve(null);
      found.then((each) => wanted && setRows(each));
      return () => (wanted = false);
    }, [record.job]);
    if (!rows) return null;
    const own = rows.functions[record.function];
    return html`<div class="plots">
      <${Plot} title="latency around this moment" rows=${rows.job} unit=${format.ms} mark=${record.time_s} around=${record.time_s} series=${[
        { label: "p50", field: "p50_ms", tone: 2 },
        { label: "p99", field: "p99_ms", tone: 3 },
      ]} />
      <${Plot} title="rows read around this moment" rows=${rows.job} unit=${format.rate} mark=${record.time_s} around=${record.time_s} series=${[{ label: "read", field: "rows_in", tone: 1 }]} />
      ${own && html`<${Plot} title="busy around this moment, ${record.function}" rows=${own} unit=${format.percent} mark=${record.time_s} around=${record.time_s} series=${[{ label: "busy", field: "busy", tone: 1 }]} />`}
    </div>`;
  }

  function Detail({ record }) {
    return html`<div class="detail">
      <div class="columns">
        <div><h4>Seen${record.effect ? ", and then" : ""}</h4><${Values} values=${record.seen} after=${record.effect} /></div>
        ${record.spent && html`<div><h4>Spent on it</h4><${Values} values=${record.spent} /></div>`}
      </div>
      ${record.job && html`<p><a href=${jobLink(record.job)}>Job ${record.job}</a></p>`}
      <h4>Candidates</h4>
      <${Candidates} candidates=${record.candidates} />
      <${Around} record=${record} />
    </div>`;
  }

  function Decision({ record }) {
    const [open, setOpen] = useState(false);
    const id = `decision-${record.number}`;
    return html`<li class="decision" data-decision=${record.number}>
      <button type="button" class="summary" aria-expanded=${open ? "true" : "false"} aria-controls=${id} onClick=${() => setOpen(!open)}>
        <span class="at">${format.moment(record.time_s)}</span>
        <span class="status ${OUTCOMES[record.outcome]}">${record.reverted_ns !== null ? "reverted" : record.outcome}</span>
        <span class="what"><strong>${record.where}</strong> ${record.what}</span>
        <span class="because">because ${record.because} · ${record.trigger} · ${record.controller}${record.reverts !== null ? ` · takes ${record.reverts} back` : ""}</span>
      </button>
      ${record.outcome_reason && html`<p class="soft reason">${record.outcome}: ${record.outcome_reason}</p>`}
      <div id=${id}>${open && html`<${Detail} record=${record} />`}</div>
    </li>`;
  }

  const SHOWN = 100;

  function DecisionList({ records }) {
    const [shown, setShown] = useState(SHOWN);
    if (!records.length) return html`<p class="empty">No decision so far.</p>`;
    return html`<ol class="decisions">
        ${records.slice(0, shown).map((record) => html`<${Decision} key=${record.number} record=${record} />`)}
      </ol>
      ${records.length > shown && html`<button type="button" onClick=${() => setShown(shown + SHOWN)}>Show ${Math.min(SHOWN, records.length - shown)} more of ${records.length}</button>`}`;
  }

  const values = (records, field) => [...new Set(records.map((record) => record[field]))].filter(Boolean).sort();

  function Choice({ label, options, value, set }) {
    return html`<label>${label}
      <select value=${value} onChange=${(event) => set(event.target.value)}>
        <option value="">all</option>
        ${options.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select>
    </label>`;
  }

  /** A tick for each decision on one line of time, so that bursts of them are seen. */
  function Timeline({ records }) {
    if (records.length < 2) return null;
    const times = records.map(({ time_s }) => time_s);
    const [first, last] = [Math.min(...times), Math.max(...times)];
    const span = Math.max(1, last - first);
    return html`<div class="timeline">
      <svg viewBox="0 0 1000 34" preserveAspectRatio="none" role="img" aria-label="${records.length} decisions over time">
        <line x1="0" x2="1000" y1="17" y2="17" />
        ${records.slice(0, 500).map(
          (record) => html`<line key=${record.number} class="tick ${OUTCOMES[record.outcome]}" x1=${(1000 * (record.time_s - first)) / span} x2=${(1000 * (record.time_s - first)) / span} y1="5" y2="29" />`,
        )}
      </svg>
      <div><span>${format.moment(first)}</span><span>${format.moment(last)}</span></div>
    </div>`;
  }

  function Decisions() {
    const records = [...store.decisions.values()].reverse();
    const [wanted, setWanted] = useState({ job: "", controller: "", outcome: "", trigger: "", text: "" });
    const set = (field) => (value) => setWanted({ ...wanted, [field]: value });
    const fields = ["job", "controller", "outcome", "trigger"];
    const found = records.filter(
      (record) =>
        fields.every((field) => !wanted[field] || record[field] === wanted[field]) &&
        (!wanted.text || `${record.where} ${record.what} ${record.because}`.toLowerCase().includes(wanted.text.toLowerCase())),
    );
    return html`<main>
      <h1>Decisions</h1>
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        ${fields.map((field) => html`<${Choice} key=${field} label=${field} options=${values(records, field)} value=${wanted[field]} set=${set(field)} />`)}
        <label>text <input type="search" value=${wanted.text} onInput=${(event) => set("text")(event.target.value)} /></label>
        <output>${found.length} of ${records.length}</output>
      </form>
      <${Timeline} records=${found} />
      <${DecisionList} records=${found} />
    </main>`;
  }

  Object.assign(stretto, { Decisions, DecisionList });
})();
