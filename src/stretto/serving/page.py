"""The API as a page: one HTML text, made of its OpenAPI document, with no script and nothing to load."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c;
  background: #fff }
code, pre { font: 14px/1.5 ui-monospace, monospace }
pre { background: #f3f3f3; padding: .75rem; overflow-x: auto }
table { border-collapse: collapse } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
h2 { border-bottom: 1px solid #ccc; margin-top: 2.5rem } h3 { margin-bottom: .25rem }
.verb { font-weight: bold; color: #0b5394 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #161616 } pre { background: #242424 }
  .verb { color: #7ab7ee } h2 { border-color: #444 } }
"""
STYLE_HASH = "sha256-" + base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
"""By this, a browser uses the page's own style and no other."""


def page_of(document: dict[str, Any]) -> str:
    """Returns the page of an OpenAPI document."""
    title = escape(document["info"]["title"])
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>",
        "<p>Arguments are a JSON object, and so are errors. As a document: ",
        '<a href="/openapi.json"><code>/openapi.json</code></a>.</p>',
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>{_paragraph(tag['description'])}")
        for path, verbs in document["paths"].items():
            if verbs["post"]["tags"] == [tag["name"]]:
                parts.append(_method(path, verbs))
    schemas = document["components"]["schemas"]
    parts.append("<h2>Types</h2>")
    parts += [f"<h3>{escape(name)}</h3>{_listing(schema)}" for name, schema in schemas.items()]
    return "".join([*parts, "</body></html>"])


def _method(path: str, verbs: dict[str, Any]) -> str:
    post = verbs["post"]
    arguments = post["requestBody"]["content"]["application/json"]["schema"]
    required = arguments["required"]
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{_type(schema)}</td>"
        f"<td>{'required' if name in required else _default(schema)}</td></tr>"
        for name, schema in arguments["properties"].items()
    ]
    result = post["responses"]["200"]["content"]["application/json"]["schema"]
    names = " or ".join(f'<span class="verb">{escape(verb.upper())}</span>' for verb in sorted(verbs, reverse=True))
    return (
        f"<h3>{names} <code>{escape(path)}</code></h3>{_paragraph(post['description'])}"
        f"<table>{''.join(rows)}<tr><td>returns</td><td>{_type(result)}</td></tr></table>"
    )


def _type(schema: dict[str, Any]) -> str:
    """Returns a schema in a few words."""
    if "$ref" in schema:
        return f"<code>{escape(schema['$ref'].rpartition('/')[2])}</code>"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        return f"list of {_type(schema['items'])}"
    if kind is None:
        return "anything" if not set(schema) - {"default"} else f"<code>{escape(_dumped(schema))}</code>"
    return escape(str(kind)) + (f" ({escape(schema['format'])})" if "format" in schema else "")


def _default(schema: dict[str, Any]) -> str:
    return f"by default <code>{escape(_dumped(schema['default']))}</code>" if "default" in schema else "optional"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def _listing(schema: dict[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2))}</pre>"


def _dumped(value: Any) -> str:
    return json.dumps(value)
