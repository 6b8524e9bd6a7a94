drop index value_change_price;
