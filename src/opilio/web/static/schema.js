// Shows the OpenAPI document of this server: on a page of its own, or within the dashboard.
(() => {
  const place = document.querySelector("#swagger-ui"), { csrf } = place.dataset;
  // Within the dashboard a call is the operator's own: a change needs the token of the page.
  const requestInterceptor = (request) => {
    if (csrf && new URL(request.url, location.href).origin === location.origin) request.headers["X-CSRF-Token"] = csrf;
    return request;
  };
  window.ui = SwaggerUIBundle({ url: "/schema/openapi.json", dom_id: "#swagger-ui", deepLinking: true, persistAuthorization: false, requestInterceptor });
  const root = document.documentElement, follow = () => root.classList.toggle("dark-mode", root.dataset.bsTheme === "dark");
  follow();
  new MutationObserver(follow).observe(root, { attributeFilter: ["data-bs-theme"] });
})();
