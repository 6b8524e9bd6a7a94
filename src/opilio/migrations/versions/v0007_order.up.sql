-- jsonb sorts the names of competitors, but their keywords are numbered in the order given.
alter table project alter column competitor_keywords type json using competitor_keywords::json;
