package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// partVariable tells a process that it is a worker, and of what.
const partVariable = "FERMATA_BENCH_PART"

// place is a system's database.
type place struct{ System, URL string }

// line is what a worker tells, one a line.
type line struct {
	News *news `json:",omitempty"`
	Used *used `json:",omitempty"`
	Err  string
}

// used is what a process has used so far.
type used struct {
	Bytes int64   // exchanged with the server
	CPU   float64 // seconds
}

// part is a worker's whole life, if this process is one: it works until its
// input ends, and tells what it has used for each line of the input.
func part() bool {
	given := os.Getenv(partVariable)
	if given == "" {
		return false
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(l)
	}
	var p place
	var w wire
	err := json.Unmarshal([]byte(given), &p)
	if err == nil {
		err = p.work(&w, tell)
	}
	if err != nil {
		tell(line{Err: err.Error()})
		os.Exit(1)
	}
	return true
}

func (p place) work(w *wire, tell func(line)) error {
	s, err := named(p.System)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			tell(line{Used: &used{w.bytes.Load(), ownCPU()}})
		}
		cancel()
	}()
	return s.work(ctx, p.URL, w, func(n news) { tell(line{News: &n}) })
}

// worker is one of the processes, as this one sees it.
type worker struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	used chan used
	gone chan error
}

// start starts a worker. What it tells of sessions goes to tell.
func (p place) start(tell func(news)) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	given, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(self), used: make(chan used, 1), gone: make(chan error, 1)}
	w.cmd.Env = append(os.Environ(), partVariable+"="+string(given))
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { w.gone <- w.read(out, tell) }()
	return w, nil
}

func (w *worker) read(out io.Reader, tell func(news)) (err error) {
	lines := json.NewDecoder(out)
	for {
		var l line
		switch e := lines.Decode(&l); {
		case e != nil:
			return errors.Join(err, w.cmd.Wait())
		case l.News != nil:
			tell(*l.News)
		case l.Used != nil:
			w.used <- *l.Used
		default:
			err = fmt.Errorf("a worker: %s", l.Err)
		}
	}
}

// ask returns what the worker has used so far.
func (w *worker) ask() (used, error) {
	if _, err := io.WriteString(w.in, "used\n"); err != nil {
		return used{}, err
	}
	select {
	case u := <-w.used:
		return u, nil
	case err := <-w.gone:
		w.gone <- err
		return used{}, fmt.Errorf("a worker ended: %w", err)
	}
}

// stop ends the worker in order.
func (w *worker) stop() error {
	w.in.Close()
	return <-w.gone
}
