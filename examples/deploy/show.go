package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// show is the script around the program: it is the outside world. It starts
// the program twice, and plays the CI server in between.
func show() {
	dir, err := os.MkdirTemp("", "deploy-")
	check(err)
	defer os.RemoveAll(dir)
	callbacks := make(chan string, 1)
	jobs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callbacks <- r.Header.Get("Callback")
		fmt.Fprint(w, "job-1")
	}))
	defer jobs.Close()
	flags := []string{
		"-file", filepath.Join(dir, "fermata.db"), "-ci", jobs.URL, "-listen", freeAddress(),
	}

	title("1  A user asks. The call waits for a job, and the process exits")
	first := start(append(flags, "-ask", "Deploy checkout v2.5.0, please.")...)
	first.until("")
	check(first.cmd.Wait())
	callback := <-callbacks

	title("2  No process runs. The call waits in the file, for a minute or a month")
	time.Sleep(time.Second)
	fmt.Println("time      a second passes")

	title("3  Another process opens the file and shows what is in it")
	second := start(flags...)
	second.until("waits for")

	title("4  The job reports how far it is, and calls back when it is done")
	for i, what := range []string{"built", "tested"} {
		time.Sleep(500 * time.Millisecond)
		progress := fmt.Sprintf(`{"message":%q,"fraction":%v}`, what, float64(i+1)/3)
		post(callback+"/progress", progress)
		second.until(what)
	}
	time.Sleep(500 * time.Millisecond)
	result := `{"url":"https://checkout.example.com"}`
	status, _ := post(callback, result)
	fmt.Printf("webhook   answers %s\n", status)
	second.until("run ")

	title("5  The job calls back once more, to be sure. Nothing happens twice")
	status, answer := post(callback, result)
	fmt.Printf("webhook   answers %s, duplicate: %v\n", status, answer.Duplicate)
	second.stdin.Close()
	check(second.cmd.Wait())
}

func title(text string) { fmt.Printf("\n%s\n\n", text) }

// process is this program, started once more.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func start(args ...string) process {
	self, err := os.Executable()
	check(err)
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // it ends with us, and so does the process
	check(err)
	stdout, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	return process{cmd, stdin, bufio.NewReader(stdout)}
}

// until prints what the process prints, up to a line that has the text; all of
// it, if the text is empty.
func (p process) until(text string) {
	for {
		line, err := p.stdout.ReadString('\n')
		fmt.Print(line)
		if err == io.EOF && text == "" || text != "" && strings.Contains(line, text) {
			return
		}
		check(err)
	}
}

// post delivers to a webhook as outside systems do: again and again, until it
// is answered.
func post(url, body string) (status string, answer struct{ Duplicate bool }) {
	for {
		res, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		defer res.Body.Close()
		check(json.NewDecoder(res.Body).Decode(&answer))
		return res.Status, answer
	}
}

// startJob is the client of the CI server. The same key starts the same job.
func startJob(ctx context.Context, in DeployInput, callback, key string) (job string, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, *ci, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Callback", callback)
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	id, err := io.ReadAll(res.Body)
	return string(id), err
}

// freeAddress finds an address for a process that is started later.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close()
	return l.Addr().String()
}
