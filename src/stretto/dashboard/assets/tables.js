// What can be asked: published tables and the state of functions, and a box to ask in.
"use strict";
(() => {
  const { html, useState, useEffect } = htmPreact;
  const { store, format, drawnIfSeen, jobLink } = stretto;
  const ROWS_SHOWN = 500;
  const TIMEOUT_S = 10;

  const authorized = () => (store.token ? { Authorization: `Bearer ${store.token}` } : {});

  async function told(answer) {
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error.text);
    return found;
  }

  const tables = async () => told(await fetch("/api/tables", { headers: authorized() }));

  async function ask(sql) {
    const headers = { "Content-Type": "application/json", ...authorized() };
    return told(await fetch("/api/query", { method: "POST", headers, body: JSON.stringify({ sql, timeout_s: TIMEOUT_S }) }));
  }

  const plain = /^[A-Za-z_][A-Za-z0-9_]*$/;
  const quoted = (name) => (plain.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);
  const firstRows = (name) => `SELECT * FROM ${name} LIMIT 20`;
  const columns = (each) => each.columns.map(({ name, type }) => `${name} ${type.toLowerCase()}`).join(", ");

  function Published({ tables, choose }) {
    if (!tables.length) return html`<p class="empty">No job publishes a table.</p>`;
    return html`<div class="wide"><table class="published">
      <thead><tr><th scope="col">table</th><th scope="col">job</th><th scope="col">time</th><th scope="col" class="number">segment</th><th scope="col">columns</th></tr></thead>
      <tbody>
        ${tables.map(
          (each) => html`<tr key=${each.name} data-table=${each.name}>
            <th scope="row" data-label="table"><button type="button" class="plain" onClick=${() => choose(firstRows(quoted(each.name)))}>${each.name}</button></th>
            <td data-label="job"><a href=${jobLink(each.job)}>${each.job}</a></td>
            <td data-label="time">${each.time}</td>
            <td class="number" data-label="segment">${format.seconds(each.segment_s)}</td>
            <td data-label="columns" class="soft columns-of">${columns(each)}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>`;
  }

  function States({ states, choose }) {
    if (!states.length) return html`<p class="empty">No function that runs has a state that can be asked.</p>`;
    return html`<div class="wide"><table class="states">
      <thead><tr><th scope="col">state</th><th scope="col">job</th><th scope="col">function</th></tr></thead>
      <tbody>
        ${states.map(
          (each) => html`<tr key=${each.job + each.name} data-state=${each.name}>
            <th scope="row" data-label="state"><button type="button" class="plain" onClick=${() => choose(firstRows(each.name))}>${each.name}</button></th>
            <td data-label="job"><a href=${jobLink(each.job)}>${each.job}</a></td>
            <td data-label="function">${each.function}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>`;
  }

  const NUMERIC = /^(tinyint|smallint|int|bigint|float|double|decimal)/i;
  const aligned = (column) => (NUMERIC.test(column.type) ? "number" : "");
  const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

  const AnswerRow = drawnIfSeen(({ row, columns }) => html`<tr>
    ${row.map((value, place) => html`<td key=${place} data-label=${columns[place].name} class=${aligned(columns[place])}>
      ${value === null ? html`<span class="soft">null</span>` : shown(value)}
    </td>`)}
  </tr>`);

  function Answer({ answer }) {
    const { columns, rows, missing } = answer;
    const more = rows.length > ROWS_SHOWN ? `, the first ${ROWS_SHOWN} are shown` : "";
    const fresh = answer.fresh_until ? `everything before ${answer.fresh_until} is in it` : "how fresh it is, is not known";
    return html`<section aria-label="Answer" data-answer>
      <p>${rows.length} ${rows.length === 1 ? "row" : "rows"}${more}; ${fresh}.</p>
      ${!answer.complete && html`<div class="error" role="alert">It is not complete. ${missing.map(({ what, why }) => `${what}: ${why}`).join("; ")}</div>`}
      <div class="wide"><table class="answer">
        <thead><tr>${columns.map((column) => html`<th key=${column.name} scope="col" class=${aligned(column)}>${column.name}<br /><span class="small">${column.type.toLowerCase()}</span></th>`)}</tr></thead>
        <tbody>${rows.slice(0, ROWS_SHOWN).map((row, place) => html`<${AnswerRow} key=${place} row=${row} columns=${columns} />`)}</tbody>
      </table></div>
    </section>`;
  }

  /** A box to ask in. What was asked last stays, so that it can be changed and asked again. */
  function Box({ sql, setSql }) {
    const [answer, setAnswer] = useState(null);
    const [error, setError] = useState("");
    const [asking, setAsking] = useState(false);
    const send = async (event) => {
      event.preventDefault();
      if (asking || !sql.trim()) return;
      setAsking(true);
      setError("");
      try {
        setAnswer(await ask(sql));
      } catch (failure) {
        setAnswer(null);
        setError(failure.message);
      } finally {
        setAsking(false);
      }
    };
    const hurry = (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && send(event);
    return html`<form class="question" onSubmit=${send}>
        <textarea aria-label="Question in SQL" rows="4" spellcheck=${false} value=${sql} placeholder="SELECT ... FROM ..." onInput=${(event) => setSql(event.target.value)} onKeyDown=${hurry}></textarea>
        <p><button type="submit" disabled=${asking || !sql.trim()}>${asking ? "…" : "Ask"}</button> <span class="soft">in Spark's SQL, answered within ${TIMEOUT_S} s; Ctrl and Enter ask too</span></p>
      </form>
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${answer && html`<${Answer} answer=${answer} />`}`;
  }

  const Locked = () => html`<p class="soft">An answer is data of the jobs: open the page by the address that was printed, with its token, to ask.</p>`;

  function Tables() {
    const [found, setFound] = useState(null);
    const [error, setError] = useState("");
    const [sql, setSql] = useState("");
    const jobs = store.overview.jobs.map(({ name, status }) => `${name} ${status}`).join();
    useEffect(() => {
      let isGone = false;
      tables().then(
        (all) => !isGone && (setFound(all), setError("")),
        (failure) => !isGone && setError(failure.message),
      );
      return () => (isGone = true);
    }, [jobs]);
    return html`<main data-view="tables">
      <h2>Ask</h2>
      ${store.token ? html`<${Box} sql=${sql} setSql=${setSql} />` : html`<${Locked} />`}
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${found &&
      html`<h2>Published tables</h2>
        <${Published} tables=${found.tables} choose=${setSql} />
        <h2>State of functions</h2>
        <${States} states=${found.states} choose=${setSql} />`}
    </main>`;
  }

  stretto.Tables = Tables;
})();
