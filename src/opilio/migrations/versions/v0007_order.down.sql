alter table project alter column competitor_keywords type jsonb using competitor_keywords::jsonb;
