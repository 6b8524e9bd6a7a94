// What pages use of Bootstrap's scripts; assets/build.py makes one file of it. Tabler's own file has all of them and more.
import "bootstrap/js/dist/alert";
import "bootstrap/js/dist/collapse";
import "bootstrap/js/dist/dropdown";
