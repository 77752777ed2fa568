package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/fermata-ai/fermata/internal/histories"
)

// journal is what one life of a process does to calls and shows of them. What
// an operation is, is written before it begins, and what it came to when it is
// over: so one that a kill cut off is known, and open.
type journal struct {
	file *os.File

	mu   sync.Mutex // guards last
	last int
}

// operation is one on a call, or on each of a session's.
type operation struct {
	Session string
	Call    string `json:",omitempty"` // empty: each that the session has, or will have
	histories.Operation

	// Of one that was read: whose it is, and whether it was never over.
	process string
	life    int
	open    bool
}

// line is what a journal has of an operation: first what it is, then what it
// came to.
type line struct {
	Number    int
	At        instant
	Operation *operation `json:",omitempty"`
	Came      *came      `json:",omitempty"`
}

// came is what an operation came to.
type came struct {
	Nothing   bool `json:",omitempty"` // it did not happen
	Text      string
	Begins    bool `json:",omitempty"` // the text is the beginning of it
	Uncertain bool `json:",omitempty"`
}

const journals = "*.history"

func openJournal(dir, process string, life int) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir,
		strings.Replace(journals, "*", fmt.Sprintf("%s-%d", process, life), 1)),
		os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{file: f}, err
}

// begin writes down that an operation begins.
func (j *journal) begin(o operation) (end func(came)) {
	j.mu.Lock()
	j.last++
	n := j.last
	j.mu.Unlock()
	j.write(line{Number: n, At: now(), Operation: &o})
	return func(c came) { j.write(line{Number: n, At: now(), Came: &c}) }
}

// saw writes down what was so at some moment since then; zero: since ever.
func (j *journal) saw(since instant, o operation) {
	j.mu.Lock()
	j.last++
	n := j.last
	j.mu.Unlock()
	text := o.Came
	o.Came = ""
	j.write(line{Number: n, At: since, Operation: &o})
	j.write(line{Number: n, At: now(), Came: &came{Text: text}})
}

func (j *journal) write(l line) {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(b, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// readJournals returns the operations of all lives. One that was never over may
// have happened, or may yet.
func readJournals(dir string) (all []operation, err error) {
	names, err := filepath.Glob(filepath.Join(dir, journals))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		process, life, err := lifeOf(name)
		if err != nil {
			return nil, err
		}
		open := map[int]*operation{}
		for row := range bytes.Lines(text) {
			if !bytes.HasSuffix(row, []byte("\n")) {
				break // a kill cut it: what it is of hasn't begun, or isn't over
			}
			var l line
			if err := json.Unmarshal(row, &l); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, row, err)
			}
			switch o := open[l.Number]; {
			case l.Operation != nil:
				l.Operation.From, l.Operation.process, l.Operation.life = int64(l.At), process, life
				open[l.Number] = l.Operation
			case o == nil:
				return nil, fmt.Errorf("%s: %q ends what never began", name, row)
			default:
				delete(open, l.Number)
				if l.Came.Nothing {
					continue
				}
				o.To, o.Came, o.Begins = int64(l.At), l.Came.Text, l.Came.Begins
				o.Uncertain = l.Came.Uncertain
				all = append(all, *o)
			}
		}
		for _, o := range open {
			o.To, o.Uncertain, o.open = math.MaxInt64, true, true
			all = append(all, *o)
		}
	}
	return all, nil
}

// lifeOf returns whose journal a file is.
func lifeOf(name string) (process string, life int, err error) {
	base := strings.TrimSuffix(filepath.Base(name), strings.TrimPrefix(journals, "*"))
	at := strings.LastIndex(base, "-")
	if at < 0 {
		return "", 0, fmt.Errorf("the journal %s is of no process", name)
	}
	life, err = strconv.Atoi(base[at+1:])
	return base[:at], life, err
}
