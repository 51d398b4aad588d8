// The frame around the views: what is shown is in the fragment of the address.
"use strict";
(() => {
  const { html, render, useState, useEffect } = htmPreact;
  const { store, listeners, follow, format, Overview, Job, Decisions, Tables } = stretto;
  const THEMES = ["auto", "light", "dark"];
  const KEY = "stretto-theme";

  function place() {
    const [, view, name] = /^#\/(job|decisions|tables)?\/?(.*)$/.exec(location.hash) ?? [];
    try {
      return { view: view ?? "overview", name: name ? decodeURIComponent(name) : null };
    } catch {
      return { view: "overview", name: null };
    }
  }

  function remembered() {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto"; // A report that is opened from disk may have no storage.
    }
  }

  function setTheme(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      return;
    }
  }

  const SAYS = {
    connecting: "connecting",
    open: "live",
    lost: "connection lost, trying again",
    refused: "the token is missing or wrong",
    ended: "the cluster has ended",
    recorded: "recorded",
  };

  function Connection() {
    const { connection, overview } = store;
    const quiet = connection === "open" && overview?.quiet;
    const said = quiet ? "live, nothing happens" : SAYS[connection];
    return html`<span class="connection ${connection}" role="status">${said}</span>`;
  }

  function Head({ view, theme, turn }) {
    const link = (name, href, text) => html`<a href=${href} aria-current=${view === name ? "page" : undefined}>${text}</a>`;
    return html`<header>
      <a class="brand" href="#/">stretto</a>
      <span class="where">${store.title}</span>
      <nav aria-label="Views">${link("overview", "#/", "Overview")}${link("decisions", "#/decisions", "Decisions")}${store.live && link("tables", "#/tables", "Tables")}</nav>
      <span class="grow"></span>
      <${Connection} />
      <span class="clock">${store.overview ? format.moment(store.overview.time_s) : ""}</span>
      <button type="button" class="theme" onClick=${turn} aria-label="Colours: ${theme}">${theme === "auto" ? "◐" : theme === "light" ? "○" : "●"}</button>
    </header>`;
  }

  function App() {
    const [, draw] = useState(0);
    const [{ view, name }, setPlace] = useState(place());
    const [theme, chooseTheme] = useState(remembered());
    useEffect(() => {
      let count = 0;
      const listener = () => draw((count += 1));
      const moved = () => {
        setPlace(place());
        scrollTo(0, 0);
      };
      listeners.add(listener);
      addEventListener("hashchange", moved);
      return () => {
        listeners.delete(listener);
        removeEventListener("hashchange", moved);
      };
    }, []);
    useEffect(() => follow(view === "job" ? name : null), [view, name]);
    const turn = () => {
      const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      setTheme(next);
      chooseTheme(next);
    };
    const shown = !store.overview
      ? html`<main><p class="empty">${SAYS[store.connection]}</p></main>`
      : view === "job"
        ? html`<${Job} key=${name} name=${name} />`
        : view === "decisions"
          ? html`<${Decisions} />`
          : view === "tables" && store.live
            ? html`<${Tables} />`
            : html`<${Overview} />`;
    return html`<${Head} view=${view} theme=${theme} turn=${turn} />${shown}`;
  }

  setTheme(remembered());
  const app = document.getElementById("app");
  app.textContent = "";
  render(html`<${App} />`, app);
})();
