// a table that is wider than the page can be scrolled by keys, too; the theme makes its frame once the page is there
const reach = () => document.querySelectorAll(".md-typeset__scrollwrap").forEach((wide) => (wide.tabIndex = 0));
new MutationObserver(reach).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
reach();
