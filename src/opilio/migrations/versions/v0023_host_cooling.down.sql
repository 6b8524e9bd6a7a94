drop table host_cooling;
