"""The page at `/docs`: Swagger UI from a package that is installed, so that it works without the internet."""

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles


def add_docs(app: FastAPI) -> None:
    """Serve the page and what it loads."""

    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="skillbus",
            swagger_js_url="/docs/assets/swagger-ui-bundle.js",
            swagger_css_url="/docs/assets/swagger-ui.css",
            swagger_favicon_url="/docs/assets/favicon.png",
        )

    app.add_api_route("/docs", docs, include_in_schema=False)
    # Only the files of the package are taken: its own application would bring ReDoc and a page of its own.
    app.mount("/docs/assets", StaticFiles(packages=[("fastapi_offline", "static")]), name="docs-assets")
