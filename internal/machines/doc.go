// Package machines has a fleet of processes run on PostgreSQL, and on an etcd of
// three members, as users run it: two processes take requests and webhooks, two
// carry sessions on. Beside what package fleet has befall processes, the servers
// are stopped, killed and cut off from each other here, and what lies between
// them and the processes is cut and late.
//
// It has no code but its tests, and is a module of its own, since it needs both
// engines and a server of etcd.
package machines
