drop index webhook_delivery_told;
drop index project_open;
