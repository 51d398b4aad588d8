// The entities of a job: how their transactions end, why they are aborted, how often they meet, where they are.
"use strict";
(() => {
  const { html } = htmPreact;
  const { format, Tile, Plot } = stretto;

  function Tiles({ entities }) {
    const ended = entities.committed + entities.aborted;
    const share = (part) => (ended ? format.percent(part / ended) : format.NONE);
    return html`<div class="tiles">
      <${Tile} label="transactions" value=${format.rate(entities.committed_per_s)} note="${format.count(entities.committed)} committed so far" />
      <${Tile} label="aborted" value=${format.rate(entities.aborted_per_s)} note="${format.count(entities.aborted)} so far, ${share(entities.aborted)}" />
      <${Tile} label="conflicts" value=${format.rate(entities.conflicts_per_s)} note="${share(entities.conflicts)} ran again under locks" />
      <${Tile} label="epochs" value=${format.rate(entities.epochs_per_s)} note="${format.count(entities.waiting)} calls wait" />
      <${Tile} label="latency p99" value=${format.ms(entities.p99_ms)} note="p50 ${format.ms(entities.p50_ms)}, from call to reply" />
      <${Tile} label="entities" value=${format.count(entities.entities)} note="${format.count(entities.looks)} looks, ${format.count(entities.delayed)} delayed calls" />
    </div>`;
  }

  function Aborts({ entities }) {
    const reasons = Object.entries(entities.aborted_by);
    if (!reasons.length) return html`<p class="empty">No transaction was aborted.</p>`;
    return html`<div class="wide"><table class="aborts">
      <thead><tr><th scope="col">aborted by</th><th scope="col" class="number">transactions</th><th scope="col" class="number">of those aborted</th></tr></thead>
      <tbody>
        ${reasons.map(
          ([reason, count]) => html`<tr key=${reason} data-abort=${reason}>
            <th scope="row" data-label="aborted by">${reason}</th>
            <td class="number" data-label="transactions">${format.count(count)}</td>
            <td class="number" data-label="of those aborted">${format.percent(count / entities.aborted)}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>`;
  }

  function Places({ entities }) {
    const { moving } = entities;
    const where = (place) => (moving?.place === place.number ? `${place.worker}, moving to ${moving.to}` : (place.worker ?? "waits for a worker"));
    return html`<div class="wide"><table class="places">
      <thead><tr>
        <th scope="col">place</th>
        <th scope="col">worker</th>
        <th scope="col" class="number">transactions</th>
        <th scope="col" class="number">committed</th>
        <th scope="col" class="number">aborted</th>
        <th scope="col" class="number">conflicts</th>
        <th scope="col" class="number">epochs</th>
        <th scope="col" class="number">entities</th>
        <th scope="col" class="number">waiting</th>
      </tr></thead>
      <tbody>
        ${entities.places.map(
          (place) => html`<tr key=${place.number} data-place=${place.number}>
            <th scope="row" data-label="place">${place.number}</th>
            <td data-label="worker">${where(place)}</td>
            <td class="number" data-label="transactions">${format.rate(place.transactions_per_s)}</td>
            <td class="number" data-label="committed">${format.count(place.committed)}</td>
            <td class="number" data-label="aborted">${format.count(place.aborted)}</td>
            <td class="number" data-label="conflicts">${format.count(place.conflicts)}</td>
            <td class="number" data-label="epochs">${format.count(place.epochs)}</td>
            <td class="number" data-label="entities">${format.count(place.entities)}</td>
            <td class="number" data-label="waiting">${format.count(place.waiting)}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>`;
  }

  function Entities({ entities, rows }) {
    if (!entities) return null;
    const kept = entities.snapshot === null ? "They are in memory only" : `Snapshot ${entities.snapshot} is the last complete one`;
    return html`<section class="entities" aria-label="Entities">
      <h2>Entities</h2>
      <p class="soft">${entities.status}, attempt ${entities.attempt}. ${kept}.</p>
      ${entities.error && html`<p class="error">${entities.error}</p>`}
      <${Tiles} entities=${entities} />
      ${rows &&
      html`<div class="plots">
        <${Plot} title="transactions per second" rows=${rows} unit=${format.rate} series=${[
          { label: "committed", field: "committed", tone: 1 },
          { label: "aborted", field: "aborted", tone: 3, dash: [6, 3] },
        ]} />
        <${Plot} title="conflicts and epochs per second" rows=${rows} unit=${format.rate} series=${[
          { label: "conflicts", field: "conflicts", tone: 3 },
          { label: "epochs", field: "epochs", tone: 2, dash: [6, 3] },
        ]} />
        <${Plot} title="latency of transactions" rows=${rows} unit=${format.ms} series=${[
          { label: "p50", field: "p50_ms", tone: 2 },
          { label: "p99", field: "p99_ms", tone: 3, dash: [6, 3] },
        ]} />
        <${Plot} title="calls that wait for an epoch" rows=${rows} unit=${format.count} series=${[{ label: "waiting", field: "waiting", tone: 1 }]} />
      </div>`}
      <h3>Why transactions were aborted</h3>
      <${Aborts} entities=${entities} />
      <h3>Places</h3>
      <${Places} entities=${entities} />
    </section>`;
  }

  stretto.Entities = Entities;
})();
