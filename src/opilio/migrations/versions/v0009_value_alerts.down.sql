drop table value_alert_state, value_alert;
