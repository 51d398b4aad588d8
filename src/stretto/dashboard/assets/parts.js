// Small parts that several views have.
"use strict";
(() => {
  const { html, Component } = htmPreact;
  const { format } = stretto;

  const STATUS = {
    running: "good",
    finished: "done",
    stopped: "done",
    failed: "bad",
    waiting: "wait",
    deploying: "wait",
    recovering: "wait",
    stopping: "wait",
  };

  const Status = ({ status }) => html`<span class="status ${STATUS[status] ?? "wait"}">${status}</span>`;

  /** Whether an objective is held: in words and by shape, not by colour alone. */
  function Held({ held }) {
    if (held === null || held === undefined) return html`<span class="held none" title="nothing measured yet">–</span>`;
    return held
      ? html`<span class="held yes"><span aria-hidden="true">✓</span> held</span>`
      : html`<span class="held no"><span aria-hidden="true">✗</span> missed</span>`;
  }

  function Bar({ share, text, tone = "1" }) {
    const width = Math.max(0, Math.min(1, share ?? 0)) * 60;
    return html`<span class="bar">
      <svg viewBox="0 0 60 8" aria-hidden="true" class="tone-${tone}">
        <rect class="track" width="60" height="8" rx="4" />
        <rect class="fill" width=${width} height="8" rx="4" />
      </svg>
      <span>${text}</span>
    </span>`;
  }

  const Tile = ({ label, value, note }) => html`<div class="tile">
    <div class="label">${label}</div>
    <div class="value">${value}</div>
    <div class="note">${note ?? ""}</div>
  </div>`;

  const rows = new WeakMap();
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const row = rows.get(target);
        if (!row) continue;
        row.isSeen = isIntersecting;
        if (isIntersecting) row.forceUpdate();
      }
    },
    { rootMargin: "300px" },
  );

  /** Makes a row that is drawn again only while it can be seen: of hundreds, an update concerns a few. */
  function drawnIfSeen(draw) {
    return class extends Component {
      isSeen = true;
      shouldComponentUpdate() {
        return this.isSeen;
      }
      componentDidMount() {
        rows.set(this.base, this);
        seen.observe(this.base);
      }
      componentWillUnmount() {
        seen.unobserve(this.base);
      }
      render(properties) {
        return draw(properties);
      }
    };
  }

  const jobLink = (name) => `#/job/${encodeURIComponent(name)}`;

  /** Values by name, such as what a controller has seen; with `after`, what became of them. */
  function Values({ values, after }) {
    const names = Object.keys({ ...values, ...after });
    if (!names.length) return html`<p class="soft">none</p>`;
    return html`<table class="values">
      <tbody>
        ${names.map(
          (name) => html`<tr key=${name}>
            <th scope="row">${format.words(name)}</th>
            <td>${format.number(values?.[name])}</td>
            ${after && html`<td class="soft">→</td><td>${format.number(after[name])}</td>`}
          </tr>`,
        )}
      </tbody>
    </table>`;
  }

  Object.assign(stretto, { drawnIfSeen, Status, Held, Bar, Tile, Values, jobLink });
})();
