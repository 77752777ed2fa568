package handle

import (
	"context"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/fermata-ai/fermata/tool"
)

// plainTerminal has terminals that show what a program writes as it is.
type plainTerminal struct {
	late time.Duration // how much later its displays read
}

func (p plainTerminal) Open(rows, columns int) (Display, error) {
	return &plainDisplay{late: p.late, size: Screen{Rows: rows, Columns: columns},
		closing: make(chan struct{})}, nil
}

type plainDisplay struct {
	late    time.Duration
	size    Screen
	shown   string
	closed  sync.Once
	closing chan struct{}
	ours    *os.File
}

// Program opens a pseudo-terminal (pts(4)).
func (d *plainDisplay) Program() *os.File {
	const getNumber, setLock = 0x80045430, 0x40045431 // TIOCGPTN, TIOCSPTLCK
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		panic(err)
	}
	var unlocked, number int32
	for request, value := range map[uintptr]*int32{setLock: &unlocked, getNumber: &number} {
		control(ours, request, value)
	}
	d.ours = ours
	theirs, err := os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		panic(err)
	}
	return theirs
}

func control(f *os.File, request uintptr, value *int32) {
	raw, err := f.SyscallConn()
	if err != nil {
		panic(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, no := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(value)))
		if no != 0 {
			panic(no)
		}
	})
}

func (d *plainDisplay) Next(context.Context) (string, Screen, error) {
	select {
	case <-d.closing:
	case <-time.After(d.late):
	}
	b := make([]byte, 1000)
	n, err := d.ours.Read(b)
	if err != nil {
		return "", d.size, io.EOF
	}
	d.shown += string(b[:n])
	return d.shown, d.size, nil
}

func (d *plainDisplay) Type(keys []Key) error {
	for _, k := range keys {
		text := k.Text
		if k.Name == "enter" {
			text = "\r"
		}
		if _, err := d.ours.Write([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func (d *plainDisplay) Close() (err error) {
	d.closed.Do(func() {
		close(d.closing)
		err = d.ours.Close()
	})
	return err
}

// A program may end before its terminal has been read to the end: nothing that it
// wrote is lost.
func TestATerminalIsReadToItsEnd(t *testing.T) {
	h := newHost()
	l := shell(t, tool.Spec{}, &CommandOptions{Terminal: plainTerminal{late: 50 * time.Millisecond}})
	got := exitOf(t, execute(t, t.Context(), l, scripted(h, `echo done`))())
	if got.ExitCode != 0 || got.Output != "done\r\n" {
		t.Errorf("%+v", got)
	}
}

// A command with a terminal shows screens, in place of each other, takes keys,
// and has the last screen as its output. The terminal controls the program.
func TestACommandInATerminal(t *testing.T) {
	h := newHost()
	l := shell(t, tool.Spec{}, &CommandOptions{Terminal: plainTerminal{}, Rows: 5, Columns: 10})
	end := execute(t, t.Context(), l, scripted(h,
		`stty -echo; echo name?; read name; echo "hello $name" >/dev/tty; echo $TERM; exit 3`))
	h.await(t, func(shown string, last Update) bool {
		return shown == "name?\r\n" && last.Screen.Rows == 5 && last.Screen.Columns == 10
	})
	h.type1(t, `{"text":"ada","keys":["entr"]}`)
	h.shows(t, `the nearest is "enter"`)
	h.type1(t, `{"text":"ada","keys":["enter"]}`)
	got := exitOf(t, end())
	if want := "name?\r\nhello ada\r\nxterm-256color\r\n"; got.ExitCode != 3 || got.Output != want {
		t.Errorf("%+v", got)
	}
}
