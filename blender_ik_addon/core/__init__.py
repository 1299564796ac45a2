# SPDX-License-Identifier: GPL-3.0-or-later
"""The mathematics of Poise: full-body inverse kinematics with numpy and the standard library alone.

References, cited by their keys:

- [KiSheen] H. Ki, D. Sheen: Pseudo-inverse control of articulated figures.
- [ChungChoi1994] C. Y. Chung, B. R. Choi: Inverse kinematic solution for periodic motion of a redundant
  manipulator, 1994.
- [Ringlayer] Pseudo-inverse by singular value decomposition.
- [SochLorencz2005] M. Šoch, R. Lórencz: Solving inverse kinematics: a new approach to the extended Jacobian
  technique, Acta Polytechnica 45(2), 2005.
- [Buss2009] S. R. Buss: Introduction to inverse kinematics with Jacobian transpose, pseudoinverse and damped
  least squares methods, 2009.
- [BussKim2005] S. R. Buss, J.-S. Kim: Selectively damped least squares for inverse kinematics, 2005.
- [Sugihara2011] T. Sugihara: Solvability-unconcerned inverse kinematics by the Levenberg-Marquardt method,
  IEEE Transactions on Robotics 27(5), 2011.
- [Sola2018] J. Solà, J. Deray, D. Atchuthan: A micro Lie theory for state estimation in robotics, 2018.
- [StarkParker1995] P. B. Stark, R. L. Parker: Bounded-variable least-squares: an algorithm and applications,
  Computational Statistics 10, 1995.
- [ByrdLuNocedalZhu1995] R. H. Byrd, P. Lu, J. Nocedal, C. Zhu: A limited memory algorithm for bound
  constrained optimization, SIAM Journal on Scientific Computing 16(5), 1995.
- [ChanGolubMulet1999] T. F. Chan, G. H. Golub, P. Mulet: A nonlinear primal-dual method for total
  variation-based image restoration, SIAM Journal on Scientific Computing 20(6), 1999.
- [LawsonHanson1974] C. L. Lawson, R. J. Hanson: Solving least squares problems, 1974, chapter 23.
- [Yoshikawa1985] T. Yoshikawa: Manipulability of robotic mechanisms, International Journal of Robotics
  Research 4(2), 1985.
- [NocedalWright2006] J. Nocedal, S. J. Wright: Numerical optimization, 2nd edition, 2006.
- [HartleyZisserman2003] R. Hartley, A. Zisserman: Multiple view geometry in computer vision, 2nd edition,
  2003.
- [DauphinEtAl2014] Y. N. Dauphin et al.: Identifying and attacking the saddle point problem in
  high-dimensional non-convex optimization, Advances in Neural Information Processing Systems 27, 2014.
- [HintermullerItoKunisch2003] M. Hintermüller, K. Ito, K. Kunisch: The primal-dual active set strategy as a
  semismooth Newton method, SIAM Journal on Optimization 13(3), 2003.
- [HairerWanner1996] E. Hairer, G. Wanner: Solving ordinary differential equations II, 2nd edition, 1996.
- [JamiesonTalwalkar2016] K. Jamieson, A. Talwalkar: Non-stochastic best arm identification and
  hyperparameter optimization, International Conference on Artificial Intelligence and Statistics 19, 2016.
- [WitkinKass1988] A. Witkin, M. Kass: Spacetime constraints, Computer Graphics (SIGGRAPH) 22(4), 1988.
- [GolubVanLoan] G. H. Golub, C. F. Van Loan: Matrix computations, 4th edition, 2013.
- [BooneAzen1979] D. C. Boone, S. P. Azen: Normal range of motion of joints in male subjects, Journal of Bone
  and Joint Surgery 61-A(5), 1979.
- [AAOS1965] American Academy of Orthopaedic Surgeons: Joint motion: method of measuring and recording, 1965.
- [Kapandji1987] I. A. Kapandji: The physiology of the joints, 5th edition, 1982 to 1987.
- [AmaGuides] American Medical Association: Guides to the evaluation of permanent impairment, 4th edition,
  1993.
- [NorkinWhite2016] C. C. Norkin, D. J. White: Measurement of joint motion: a guide to goniometry, 5th
  edition, 2016.
- [Kosmahl1999] E. M. Kosmahl: Goniometry, pages of the University of Scranton, 1999.
- [Neumann2010] D. A. Neumann: Kinesiology of the musculoskeletal system, 2nd edition, 2010.
- [Baumbach2014] S. F. Baumbach et al.: The influence of knee position on ankle dorsiflexion: a biometric
  study, BMC Musculoskeletal Disorders 15:246, 2014.
- [Jaegger2002] G. Jaegger, D. J. Marcellin-Little, D. Levine: Reliability of goniometry in Labrador
  Retrievers, American Journal of Veterinary Research 63(7), 2002.
- [Cooney1981] W. P. Cooney et al.: The kinesiology of the thumb trapeziometacarpal joint, Journal of Bone and
  Joint Surgery 63-A(9), 1981.
- [DeLeva1996] P. de Leva: Adjustments to Zatsiorsky-Seluyanov's segment inertia parameters, Journal of
  Biomechanics 29(9), 1996.
- [Gordon2014] C. C. Gordon et al.: 2012 Anthropometric Survey of U.S. Army Personnel, Natick, 2014.
- [Anderson1965] D. G. Anderson: Iterative procedures for nonlinear integral equations, Journal of the ACM
  12(4), 1965.
- [WalkerNi2011] H. F. Walker, P. Ni: Anderson acceleration for fixed-point iterations, SIAM Journal on
  Numerical Analysis 49(4), 2011.
- [Lawson1961] C. L. Lawson: Contributions to the theory of linear least maximum approximation, thesis,
  University of California, Los Angeles, 1961.
"""

from typing import Final

from .errors import IKError
from .explain.diagnosis import Diagnosis, LevelDiagnosis, LostDirection, diagnose
from .explain.explanation import Explanation, Limit, Reason
from .methods import target_path
from .model.kinematics import PosedSkeleton, forward_kinematics
from .model.skeleton import Pose, Skeleton
from .problem.options import METHODS, SolverOptions
from .problem.problem import Problem
from .solve.follower import Followed, Follower
from .solve.sequence import SequenceSolution, solve_each, solve_sequence
from .solve.solver import Solution, Status, TaskError, solve
from .solve.tracker import Tracker
from .tasks import (
    AimAt,
    Balance,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    PointPole,
    ReachFrame,
    ReachPoint,
    Side,
    StayNear,
    Task,
)

__version__: Final = "0.2.0"

__all__ = [
    "METHODS",
    "AimAt",
    "Balance",
    "Diagnosis",
    "Explanation",
    "Followed",
    "Follower",
    "IKError",
    "KeepDistance",
    "LevelDiagnosis",
    "Limit",
    "LostDirection",
    "MatchOrientation",
    "OnPlane",
    "OneOf",
    "PointPole",
    "Pose",
    "PosedSkeleton",
    "Problem",
    "ReachFrame",
    "ReachPoint",
    "Reason",
    "SequenceSolution",
    "Side",
    "Skeleton",
    "Solution",
    "SolverOptions",
    "Status",
    "StayNear",
    "Task",
    "TaskError",
    "Tracker",
    "diagnose",
    "forward_kinematics",
    "solve",
    "solve_each",
    "solve_sequence",
    "target_path",
]
