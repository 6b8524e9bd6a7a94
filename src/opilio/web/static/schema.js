// Shows the OpenAPI document of this server.
window.ui = SwaggerUIBundle({ url: "/schema/openapi.json", dom_id: "#swagger-ui", deepLinking: true, persistAuthorization: false });
