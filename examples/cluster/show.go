package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/cluster/engines"
	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// show is the script around the program: the store, the service that runs jobs,
// and who starts and kills the processes.
func show() {
	url, end := server()
	defer end()
	fail(engines.Prepare(context.Background(), url, ""))
	s := jobService{keys: map[string]int{}, begun: make(chan string, 10), callbacks: make(chan string, 1)}
	service := httptest.NewServer(&s)
	defer service.CloseClientConnections()
	one, two := freeAddress(), freeAddress()
	flags := []string{"-part", "-store", url, "-jobs", service.URL, "-public", "http://" + two}
	replicas := []*process{start("", append(flags, "-listen", one)...), start("", append(flags, "-listen", two)...)}
	lines := make(chan line, 100)
	workers := []*process{start("a", flags...), start("b", flags...)}
	for _, w := range workers {
		go w.read(lines)
	}
	names := map[string]string{}
	until := func(text string) (who string) {
		for l := range lines {
			if names[l.who] == "" {
				names[l.who] = fmt.Sprint("worker ", len(names)+1)
			}
			fmt.Printf("%-9s %s\n", names[l.who], l.text)
			if strings.HasPrefix(l.text, text) {
				return l.who
			}
		}
		return ""
	}

	title("1  A user asks one replica. One of two workers begins")
	session := fmt.Sprint("chat-", time.Now().UnixNano())
	post("http://"+one+"/messages/"+session, "Check and deploy checkout, please.")
	first := until("calls check")
	<-s.begun

	title("2  That worker is killed in the middle. The other one takes over")
	for _, w := range workers {
		if w.name == first {
			fail(w.cmd.Process.Kill())
		}
	}
	until("waits for")

	title("3  The replica that was asked ends. The job calls the other one back")
	replicas[0].stop()
	callback := <-s.callbacks
	status, _ := post(callback, `{"result":"done"}`)
	fmt.Println("webhook   answered", status)
	until("says")

	title("4  The job calls back once more, to be sure. Nothing happens twice")
	status, answer := post(callback, `{"result":"done"}`)
	fmt.Printf("webhook   answered %s, duplicate: %v\n", status, answer.Duplicate)
	replicas[1].stop()
	for _, w := range workers {
		w.stop()
	}
}

// server returns the URL of the store, and starts one if none is given.
func server() (url string, end func()) {
	if *store != "" {
		return *store, func() {}
	}
	pg, err := postgrestest.Start(nil)
	if err == nil {
		return pg.URL(), func() { fail(pg.Close()) }
	}
	if !errors.Is(err, postgrestest.ErrMissing) {
		fail(err)
	}
	dir, err := os.MkdirTemp("", "cluster")
	fail(err)
	cluster, err := etcdserver.Start(etcdserver.Config{Dir: dir, Fsync: true})
	fail(err)
	return "etcd://" + cluster.Addr(), func() {
		cluster.Close()
		fail(os.RemoveAll(dir))
	}
}

// jobService runs jobs. The first check never ends by itself; the same key
// names the same job.
type jobService struct {
	keys      map[string]int
	begun     chan string
	callbacks chan string
}

func (s *jobService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/deploy" {
		s.callbacks <- r.Header.Get("Callback")
		fmt.Fprint(w, "job")
		return
	}
	s.keys[r.Header.Get("Idempotency-Key")]++ // one request at a time comes
	s.begun <- r.Header.Get("Idempotency-Key")
	if s.keys[r.Header.Get("Idempotency-Key")] == 1 {
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, "passed, of %s", map[bool]string{true: "one job", false: "several jobs"}[len(s.keys) == 1])
}

// ask has the service run a job.
func ask(ctx context.Context, url, key, callback string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Callback", callback)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// said is a result of a call, as one line.
func said(ev event.Result) string {
	var out Output
	if err := json.Unmarshal(ev.Result.Output, &out); err != nil {
		return ev.Result.Name + ": " + string(ev.Result.Output)
	}
	return ev.Result.Name + ": " + out.Result
}

func title(text string) { fmt.Printf("\n%s\n\n", text) }

// process is this program, started once more.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
}

// line is one that a process has printed.
type line struct{ who, text string }

func start(name string, args ...string) *process {
	self, err := os.Executable()
	fail(err)
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // it ends with us, and so does the process
	fail(err)
	stdout, err := cmd.StdoutPipe()
	fail(err)
	fail(cmd.Start())
	return &process{name, cmd, stdin, stdout}
}

func (p *process) read(lines chan<- line) {
	for text := bufio.NewScanner(p.stdout); text.Scan(); {
		lines <- line{p.name, text.Text()}
	}
}

// stop ends a process in order, if it still runs.
func (p *process) stop() {
	p.stdin.Close()
	_ = p.cmd.Wait()
}

// post delivers as outside systems do: again and again, until it is answered.
func post(url, body string) (status string, answer struct{ Duplicate bool }) {
	for {
		res, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		defer res.Body.Close()
		_ = json.NewDecoder(res.Body).Decode(&answer)
		return res.Status, answer
	}
}

// freeAddress finds an address for a process that is started later.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	defer l.Close()
	return l.Addr().String()
}
