-- The first price of a policy is no change: only rows with an old price are listed.
create index value_change_price on value_change (at desc) where field = 'price' and old is not null;
