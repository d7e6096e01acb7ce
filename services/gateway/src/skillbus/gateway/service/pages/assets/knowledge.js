"use strict";
// Pages of the knowledge base: saved views of the list, tags of changed rows, and help while an item is written.

function waitBefore(work, milliseconds) {
  let waiting = null;
  return () => { clearTimeout(waiting); waiting = setTimeout(work, milliseconds); };
}

// Shows a part of a page that the server makes. An answer that a newer one has overtaken is dropped.
function showPart(place, ask) {
  let newest = 0;
  return async () => {
    const turn = ++newest;
    const response = await ask().catch(() => null);
    if (turn === newest && response !== null && response.ok) place.innerHTML = await response.text();
  };
}

function helpEditor(form) {
  const { title, content, scope } = form.elements;
  const showSimilar = waitBefore(showPart(form.querySelector("[data-similar]"), () => callApi("POST", "/knowledge/similar", {
    id: form.dataset.item || null, title: title.value, content: content.value })), 700);
  title.addEventListener("input", showSimilar);
  content.addEventListener("input", showSimilar);
  const wanted = form.querySelector("[data-wanted-scope]");
  const showMatch = waitBefore(showPart(form.querySelector("[data-scope-match]"), () => callApi(
    "GET", `/knowledge/scope-match?${new URLSearchParams({ scope: scope.value, wanted: wanted.value })}`, null)), 200);
  scope.addEventListener("input", showMatch);
  wanted.addEventListener("input", showMatch);
}

// Views belong to a key and a project, as drafts do, and are kept in this browser. A view is a link without its page.
const viewsKey = `skillbus views ${page.caller} ${page.project}`;
const loadViews = () => JSON.parse(localStorage.getItem(viewsKey) || "{}");

function readView() {
  const query = new URLSearchParams(location.search);
  for (const name of ["after", "before", "project"]) query.delete(name);
  query.sort();
  return query.toString();
}

function changeViews(change) {
  const views = loadViews();
  change(views);
  localStorage.setItem(viewsKey, JSON.stringify(views));
  showViews();
}

function showViews() {
  const list = document.querySelector("[data-views] ul");
  const template = document.querySelector("[data-views] template");
  list.replaceChildren(...Object.entries(loadViews()).map(([name, query]) => {
    const row = template.content.firstElementChild.cloneNode(true);
    const link = row.querySelector("a");
    const address = new URLSearchParams(query);
    if (page.project !== "default") address.set("project", page.project);
    link.textContent = name;
    link.href = `/knowledge?${address}`;
    if (query === readView()) link.setAttribute("aria-current", "true");
    const [rename, remove] = row.querySelectorAll("button");
    rename.setAttribute("aria-label", `${rename.textContent}: ${name}`);
    remove.setAttribute("aria-label", `${remove.textContent}: ${name}`);
    rename.addEventListener("click", () => {
      const chosen = (prompt(rename.title, name) || "").trim();
      if (chosen) changeViews((views) => { delete views[name]; views[chosen] = query; });
    });
    remove.addEventListener("click", () => changeViews((views) => { delete views[name]; }));
    return row;
  }));
}

function offerViews(form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation();
    const [field] = form.elements;
    changeViews((views) => { views[field.value.trim()] = readView(); });
    form.reset();
    form.closest("details").open = false;
  });
  document.addEventListener("htmx:pushedIntoHistory", showViews);
  showViews();
}

document.addEventListener("row-changed", (event) => {
  const { version, tags } = event.detail;
  const row = event.target;
  row.dataset.version = version;
  row.dataset.tags = JSON.stringify(tags);
  row.querySelector("[data-tag-list]").replaceChildren(...tags.flatMap((tag) => {
    const chip = document.createElement("span");
    chip.className = "tag";
    chip.textContent = tag;
    return [chip, " "];
  }));
});

const editor = document.querySelector("form.editor");
if (editor !== null) helpEditor(editor);
const viewForm = document.querySelector("[data-views] form");
if (viewForm !== null) offerViews(viewForm);
