"""Pages with objects and embeds that show documents: hosts of a shadow root of the browser's, and no frames."""

from __future__ import annotations

from pathlib import Path

_DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><rect width="90" height="60" fill="teal"/>
<a href="#here"><text y="20">Drawn</text></a></svg>"""
_INNER = "<!doctype html><title>inner</title><body>Within<button>Inner</button><input value=inside>"
_TALL = "<!doctype html><title>tall</title><body>Top<div style='height:3000px'></div><button>Bottom</button>"
_SIZE = "width=200 height=80"
_ALL = "".join(
    f"<object data={file} type={kind} {_SIZE}></object><embed src={file} type={kind} {_SIZE}>"
    for file, kind in (("inner.html", "text/html"), ("tall.html", "text/html"), ("drawing.svg", "image/svg+xml"))
)
_BUTTONS = "".join(
    f"<{name}={file} {_SIZE} tabindex=0 role=button aria-label=Press onclick='1'>{end}"
    for file in ("inner.html", "drawing.svg")
    for name, end in (("object data", "Instead</object>"), ("embed src", ""))
)
_FALLBACKS = f"""<object data=missing.html type=text/html {_SIZE}>Gone<button>Instead of it</button></object>
<object {_SIZE}>Nothing<button>Without data</button></object>
<object data=inner.html {_SIZE}><param name=a value=b>Hidden<button>Not needed</button>
<object data=inner.html></object></object><object data=inner.html style='display:none'></object>
<embed src=inner.html style='visibility:hidden'>
<object data=inner.html style='opacity:0' aria-label=Faint></object>
<object data=inner.html width=0 height=0></object>"""
_SHADOW = f"""<div id=open></div><div id=closed></div><iframe src=all.html width=500 height=300></iframe><script>
for (const mode of ["open", "closed"])
  document.getElementById(mode).attachShadow({{mode}}).innerHTML =
    "<object data=inner.html {_SIZE}></object><embed src=drawing.svg {_SIZE}><button>" + mode + "</button>";
</script>"""
_REMOTE = f"""<script>
const there = "http://localhost:" + location.port + "/";
document.write("<object {_SIZE} data=" + there + "inner.html></object><embed {_SIZE} src=" + there + "drawing.svg>");
document.write("<object {_SIZE} data=" + there + "all.html>Instead<button>Instead</button></object>");
document.write("<iframe {_SIZE} src=" + there + "all.html></iframe>");
</script>"""
_XHTML = f"""<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body>
<object data="inner.html" width="200" height="80">Instead</object><embed src="drawing.svg" width="200" height="80"/>
<iframe src="inner.html" width="200" height="80"></iframe>{_DRAWING}</body></html>"""

_PAGES = {"all": _ALL, "buttons": _BUTTONS, "fallbacks": _FALLBACKS, "shadow": _SHADOW, "remote": _REMOTE}


def write_embedded_pages(folder: Path) -> list[str]:
    """The names of the pages, written into a folder together with the documents that they show."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"inner.html": _INNER, "tall.html": _TALL, "drawing.svg": _DRAWING}.items():
        (folder / name).write_text(text, "utf-8")
    pages = {f"{name}.html": f"<!doctype html><title>{name}</title><body>{body}" for name, body in _PAGES.items()}
    pages["x.xhtml"] = _XHTML
    for name, text in pages.items():
        (folder / name).write_text(text, "utf-8")
    return [*pages, "drawing.svg"]
