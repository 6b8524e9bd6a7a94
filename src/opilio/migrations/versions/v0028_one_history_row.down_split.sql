do $$
begin
  while split_history(5000) > 0 loop
    commit;
  end loop;
end $$;
